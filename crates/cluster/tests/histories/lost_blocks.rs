//! Blocks that the engine has lost, or has and the node's file lacks.

use cluster::{BlockOwner, Key};
use cni::code;

use super::claims::{BLUE, KEPT, LOST, Site, key, of, with_two_blocks};
use super::interrupted::Interrupted;

/// A node with two blocks, of which the engine has lost the first.
fn with_a_lost_block() -> Site {
    let site = with_two_blocks();
    site.lose(LOST);
    site
}

#[test]
fn a_claim_that_never_reached_the_engine_leaves_no_block() {
    let site = Site::new(BLUE);
    let mut engine = Interrupted::new(&site.store);
    engine.loses_changes = true;
    let refused = site.add(&mut engine).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [""; 0]);
    assert_eq!(site.claimed(), []);
}

#[test]
fn a_block_that_the_engine_has_lost_is_claimed_again() {
    let site = with_two_blocks();
    let former = site.owner(LOST);
    site.lose(LOST);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed().len(), 2);
    assert_eq!(site.claimed(), [of(LOST, "n0"), of(KEPT, "n0")]);
    // A release of the former claim that is late doesn't release this one.
    assert_ne!(site.owner(LOST), former);
}

#[test]
fn a_lost_block_that_another_node_claims_first_is_not_used() {
    let site = with_a_lost_block();
    let engine = &mut Interrupted::once(&site.store, |store, _| {
        store.put(key(LOST), &BlockOwner::new("n2").to_value());
    });
    site.gc(engine).unwrap();
    assert_eq!(site.listed(), [KEPT]);
    assert_eq!(site.claimed(), [of(LOST, "n2"), of(KEPT, "n0")]);
}

#[test]
fn a_lost_block_of_another_length_is_not_used() {
    let site = with_a_lost_block();
    let other = br#"{"subnet":"10.0.0.0/27","block":28}"#;
    site.store.put(Key::Pool("blue".to_owned()), other);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [KEPT]);
    assert_eq!(site.claimed(), [of(KEPT, "n0")]);
}

#[test]
fn after_a_restore_gc_claims_no_lost_block_and_is_refused_only_if_there_is_one() {
    let site = with_a_lost_block();
    let mark = Key::Mark("n7".to_owned());
    site.store.put(mark.clone(), b"");
    let refused = site.gc(&mut Interrupted::new(&site.store)).unwrap_err();
    assert!(refused.msg.contains("n7"), "{refused}");
    assert_eq!(site.listed(), [LOST, KEPT]);
    assert_eq!(site.claimed(), [of(KEPT, "n0")]);
    site.store.delete(&mark);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    site.store.put(mark, b"");
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
}

#[test]
fn a_block_of_the_node_that_its_file_lacks_is_adopted_unless_there_was_a_restore() {
    let site = Site::new(BLUE);
    site.claim("10.0.0.9");
    site.put(KEPT, "n0");
    site.put("10.0.0.24/29", "n2");
    let mark = Key::Mark("n7".to_owned());
    site.store.put(mark.clone(), b"");
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [LOST]);
    site.store.delete(&mark);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [LOST, KEPT]);
}
