//! The folders of a home that hold tools, and the files in them that hold credentials; looks at no disk.

/// Folders beneath the home that are shown, read-only, where they are there.
pub const FOLDERS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal/bin",
    ".cabal/packages",
    ".cabal/store",
    ".cache/go-build",
    ".cache/pip",
    ".cache/uv",
    ".cargo",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".gradle/caches",
    ".gradle/wrapper",
    ".julia",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".nix-profile",
    ".npm/_cacache",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".swiftly",
    ".volta",
    "go/bin",
    "go/pkg",
];

/// Files in those folders that hold credentials.
pub const CREDENTIALS: &[&str] = &[
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".asdf/.netrc",
    ".bun/.npmrc",
    ".julia/servers",
    ".nvm/.npmrc",
    ".rvm/user",
];

/// Variables that name such a folder elsewhere. They are passed on, and the folder is shown, read-only.
pub const VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// The same names relative to a folder that one of the variables names.
pub const CREDENTIALS_THERE: &[&str] = &["credentials", "credentials.toml", ".npmrc", ".netrc"];
