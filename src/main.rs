//! Parses, runs, reports; everything else is in the library.

fn main() -> std::process::ExitCode {
    agon::sandbox_entry();
    agon::cli::main()
}
