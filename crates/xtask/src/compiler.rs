//! The compiler of `cargo xtask test`: a crate is linted by the compilation that its tests run, and
//! documented with what that was given. `cargo clippy` and `cargo doc` compile all dependencies in
//! a way of their own, which takes two minutes.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use shipped::{COMPILER_WRAPPER, target_dir};

/// The variable with Clippy's arguments, and these.
pub(crate) const LINTS: (&str, &str) = ("CLIPPY_ARGS", "-Dwarnings");

/// Compiles as cargo asks for it, if it is cargo that has started this.
///
/// # Errors
///
/// The crate is refused, for reasons that are printed, or a program of the toolchain is missing.
#[must_use]
pub fn compile() -> Option<Result<()>> {
    env::var_os(COMPILER_WRAPPER)?;
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let is_asked = Path::new(arguments.first()?).file_stem()? == "rustc";
    is_asked.then(|| compile_and_document(&arguments))
}

fn compile_and_document(arguments: &[OsString]) -> Result<()> {
    run(Command::new("clippy-driver").args(arguments))?;
    let is = |what: &str| arguments.iter().any(|argument| argument == what);
    // Executables that nothing starts are compiled for their unit tests alone.
    let file = if is("--test") {
        "src/main.rs"
    } else {
        "/lib.rs"
    };
    let is_of = |argument: &OsString| argument.to_string_lossy().ends_with(file);
    if is(r#"feature="verbose""#) || !arguments.iter().any(is_of) {
        return Ok(());
    }
    let mut document = Command::new("rustdoc");
    document.args(["--document-private-items", "--deny=warnings", "--out-dir"]);
    document.arg(target_dir().join("doc"));
    let mut given = arguments[1..].iter();
    while let Some(argument) = given.next() {
        match argument.to_string_lossy().split('=').next() {
            Some("--emit" | "--remap-path-prefix" | "--test") => {}
            Some("--out-dir") => drop(given.next()),
            _ => drop(document.arg(argument)),
        }
    }
    run(&mut document)
}

/// Runs a program whose arguments are too many to be shown, and which says itself what it refuses.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let failed = || format!("could not run {program}");
    let status = command.status().with_context(failed)?;
    ensure!(status.success(), "{program} failed ({status})");
    Ok(())
}
