//! The project's tasks: `cargo xtask demo`, `test`, `bench`, `install` and `dist`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::build::Flavour;
use xtask::{cargo, compiler, demo, dist, install, test};

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show the chain at work: two containers, from ADD to GC.
    ///
    /// State is kept in a temporary folder, and no root is needed. As root, with the
    /// reference plugin `bridge` and `ip`, the containers are network namespaces; with
    /// `ping`, they ping each other. What is missing is named, and left out.
    Demo,
    /// Run all checks: formatting, lints, documentation, tests.
    ///
    /// As root on Debian, the packages that the end-to-end tests need are
    /// installed. Otherwise they are named, and the tests that need them are
    /// left out.
    Test {
        /// What a release needs besides: whole walks of kills and faults, and the same bytes from
        /// a second build.
        #[arg(long)]
        all: bool,
    },
    /// Measure how long calls take, beside the reference plugin in the same run.
    ///
    /// The benchmark is a separate program, which is built first.
    #[command(disable_help_flag = true)]
    Bench {
        /// Its arguments: --help lists them.
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        arguments: Vec<OsString>,
    },
    /// Build every plugin in release mode, and put it into a folder.
    ///
    /// Each file is replaced in one step, so that this can be done under running
    /// containers.
    Install {
        /// The folder, such as /opt/cni/bin; made if it isn't there.
        dir: PathBuf,
        /// Put ipamctl into this folder, too, such as /usr/local/sbin.
        #[arg(long, value_name = "DIR")]
        sbin: Option<PathBuf>,
        /// The flavour that logs at debug level to /var/log/cni.
        #[arg(long)]
        verbose_flavour: bool,
    },
    /// Make the archives, the images and the Debian packages of a release, and their sums.
    ///
    /// The executables are static, for the host's architecture, with musl where the
    /// toolchain has that target. The same commit gives the same bytes.
    Dist(dist::Dist),
}

fn main() -> ExitCode {
    let done = compiler::compile().unwrap_or_else(|| match Arguments::parse().task {
        Task::Demo => demo::run(),
        Task::Test { all } => test::run(all),
        Task::Bench { arguments } => bench(&arguments),
        Task::Install {
            dir,
            sbin,
            verbose_flavour,
        } => install::run(&dir, sbin.as_deref(), verbose_flavour),
        Task::Dist(dist) => dist::run(&dist),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the package `bench`, built as the plugins are: some of its contenders are itself.
fn bench(arguments: &[OsString]) -> Result<()> {
    let built = Flavour::Normal.build_static(&["bench"])?;
    cargo::run(Command::new(built.join("bench")).args(arguments))
}
