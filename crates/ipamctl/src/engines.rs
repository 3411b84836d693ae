//! The engines of clusters.

use cluster::Engine;
use cni::DelegateName;

/// The index of the delegate that is an engine's allocator, and the engine.
pub(crate) fn engine_of(delegates: &[DelegateName]) -> Option<(usize, &'static dyn Engine)> {
    let engines: [&dyn Engine; 2] = [&etcd::ENGINE, kubernetes::ENGINE];
    let mut numbered = delegates.iter().enumerate();
    numbered.find_map(|(at, delegate)| {
        let mut engines = engines.into_iter();
        let engine = engines.find(|engine| delegate.as_str() == engine.allocator())?;
        Some((at, engine))
    })
}
