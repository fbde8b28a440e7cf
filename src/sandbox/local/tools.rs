//! What of a home's tool folders a command sees: programs, libraries and caches, by name; reads no disk.

use std::path::Path;

use crate::protocol::names::Names;

/// One tool's folder.
pub struct Tool {
    /// Where it is, relative to the home.
    pub folder: &'static str,
    /// The variable that names it elsewhere, if there is one. It is passed on to commands that can use the folder.
    pub variable: Option<&'static str>,
    /// What is shown of it, read-only, and searched for [`credentials`]. `*` is any name, `.` the folder itself.
    pub shown: &'static [&'static str],
    /// What others published: shown as well and, for its size, not searched.
    pub packages: &'static [&'static str],
    /// Folders in what is shown that stay hidden.
    pub hidden: &'static [&'static str],
    /// Folders in what is shown that the tool writes to: changes stay in the session.
    pub written: &'static [&'static str],
}

const fn tool(
    folder: &'static str,
    shown: &'static [&'static str],
    packages: &'static [&'static str],
) -> Tool {
    Tool { folder, variable: None, shown, packages, hidden: &[], written: &[] }
}

impl Tool {
    const fn at(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    const fn writing(mut self, written: &'static [&'static str]) -> Self {
        self.written = written;
        self
    }

    const fn but(mut self, hidden: &'static [&'static str]) -> Self {
        self.hidden = hidden;
        self
    }
}

/// The one table. Whatever a tool keeps elsewhere in its folder (settings, logs, keys) is not seen.
pub const TABLE: &[Tool] = &[
    tool(".asdf", &["asdf.sh", "bin", "defaults", "installs", "lib", "plugins", "shims"], &[]),
    tool(".bun", &["bin"], &["install/cache", "install/global"]),
    tool(".cabal", &["bin"], &["packages", "store"]),
    tool(".cache", &["node/corepack"], &["ms-playwright", "pypoetry"]).writing(&["pypoetry"]),
    tool(".cache/go-build", &[], &["."]).at("GOCACHE").writing(&["."]),
    tool(".cache/pip", &[], &["."]).at("PIP_CACHE_DIR").writing(&["."]),
    tool(".cache/uv", &[], &["."]).at("UV_CACHE_DIR").writing(&["."]),
    tool(
        ".cargo",
        &["bin", "config", "config.toml", "env", "git/db", ".crates.toml", ".crates2.json"],
        &["git/checkouts", "registry"],
    )
    .at("CARGO_HOME")
    .writing(&["git/checkouts", "git/db", "registry"]),
    tool(".deno", &["bin"], &[]),
    tool(
        ".dotnet",
        &["dnx", "dotnet", "host", "sdk", "sdk-manifests", "shared", "tools"],
        &["library-packs", "metadata", "packs", "templates"],
    ),
    tool(".elan", &["bin", "env", "settings.toml"], &["toolchains"]),
    tool(".fnm", &["aliases", "node-versions"], &[]),
    tool(".ghcup", &["bin", "env", "lib", "share"], &["ghc", "hls"]),
    tool(".gradle", &[], &["caches", "jdks", "wrapper"]).writing(&["caches"]),
    tool(
        ".julia",
        &["bin", "environments", "juliaup"],
        &["artifacts", "compiled", "packages", "registries", "scratchspaces"],
    ),
    tool(".juliaup", &["bin"], &[]),
    tool(".local", &["bin", "lib"], &[]),
    tool(".local/pipx", &["shared", "venvs"], &[]),
    tool(".local/share/fnm", &["aliases", "node-versions"], &[]),
    tool(".local/share/mise", &["installs", "plugins", "shims"], &[]),
    tool(".local/share/pipx", &["shared", "venvs"], &[]),
    tool(".local/share/pypoetry", &["venv"], &[]),
    tool(".local/share/pnpm", &["."], &["global", "store"]),
    tool(".local/share/uv", &["python", "tools"], &[]),
    tool(".local/share/virtualenvs", &["."], &[]),
    tool(".m2", &[], &["repository", "wrapper"]).writing(&["repository"]),
    tool(".nix-profile", &[], &["."]),
    tool(".npm", &[], &["_cacache"]).at("npm_config_cache").writing(&["_cacache"]),
    tool(".nuget", &[], &["packages"]).writing(&["packages"]),
    tool(".nvm", &["alias", "bash_completion", "nvm-exec", "nvm.sh", "versions"], &[]).at("NVM_DIR"),
    tool(
        ".opam",
        &["config", "opam-init", "*/bin", "*/sbin"],
        &["*/lib", "*/man", "*/share", "*/.opam-switch"],
    ),
    tool(
        ".pyenv",
        &["bin", "completions", "libexec", "plugins", "pyenv.d", "shims", "version", "versions"],
        &[],
    )
    .at("PYENV_ROOT"),
    tool(
        ".rbenv",
        &["bin", "completions", "libexec", "plugins", "rbenv.d", "shims", "version", "versions"],
        &[],
    ),
    tool(".rustup", &["settings.toml", "toolchains"], &["update-hashes"]).at("RUSTUP_HOME"),
    tool(
        ".rvm",
        &["VERSION", "RELEASE", "bin", "config", "environments", "lib", "rubies", "scripts", "wrappers"],
        &["gems"],
    ),
    tool(".sdkman", &["bin", "contrib", "libexec", "src"], &["candidates"]),
    tool(".swiftly", &["bin", "config.json", "env.sh"], &["toolchains"]),
    tool(".volta", &["bin", "tools"], &[]).at("VOLTA_HOME"),
    // A repository's address with a password in it is kept where modules are fetched.
    tool("go", &["bin"], &["pkg"]).at("GOPATH").but(&["pkg/mod/cache/vcs"]).writing(&["pkg"]),
    tool("go/pkg/mod", &[], &["."]).at("GOMODCACHE").but(&["cache/vcs"]).writing(&["."]),
];

/// Variables that name one version of a tool, which is shown whole, searched like the others.
pub const WHOLE: &[&str] = &["GOROOT", "JAVA_HOME", "VIRTUAL_ENV"];

/// Whether the table shows a folder, given relative to the home.
pub fn shows(folder: &Path) -> bool {
    TABLE.iter().any(|tool| {
        let beneath = folder.strip_prefix(tool.folder).ok();
        beneath
            .is_some_and(|beneath| tool.shown.iter().chain(tool.packages).any(|part| begins(beneath, part)))
    })
}

fn begins(path: &Path, part: &str) -> bool {
    let mut names = path.components();
    let mut wanted = part.split('/').filter(|name| *name != ".");
    wanted.all(|name| names.next().is_some_and(|found| name == "*" || found.as_os_str() == name))
}

/// Every variable that names a tool's folder.
pub fn variables() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter_map(|tool| tool.variable).chain(WHOLE.iter().copied())
}

/// Those of folders that a tool writes to as a whole.
pub fn caches() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(|tool| tool.written == ["."]).filter_map(|tool| tool.variable)
}

/// Names of files that tools keep credentials in, next to those that are secret in a workspace. In a folder that is shown
/// such a file is empty.
const CREDENTIALS: &[&str] = &[
    "*_history",
    "*key*.pem",
    ".condarc",
    ".gemrc",
    ".token",
    "FETCH_HEAD",
    "auth.ini",
    "auth.json",
    "auth.toml",
    "credentials",
    "credentials.{db,ini,json,toml,xml,yaml,yml}{,.*}",
    "gemrc",
    "gradle.properties",
    "hosts.yml",
    "npmrc",
    "nuget.config",
    "pip.conf",
    "pip.ini",
    "repl_history.jl",
    "settings-security.xml",
    "token",
];

/// Globs of such names, then of such names in their folder. Certificates, which programs ship, are `*.pem` as well.
pub fn credentials() -> (Vec<String>, Vec<String>) {
    let secret = Names::standard().secret.iter().map(String::as_str).filter(|name| *name != "*.pem");
    CREDENTIALS.iter().copied().chain(secret).map(str::to_owned).partition(|name| !name.contains('/'))
}

/// Folders that hold what others published, or git's objects by the thousand: they are not searched.
pub const NOT_SEARCHED: &[&str] =
    &["dist-packages", "html", "node_modules", "objects", "rustlib", "site-packages"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_folder_is_shown_by_its_own_name_and_not_by_what_it_is_in() {
        for shown in [".cargo/bin", ".cargo/registry/x", ".opam/4.14/bin", ".local/share/pnpm", "go/pkg/mod"]
        {
            assert!(shows(Path::new(shown)), "{shown}");
        }
        for hidden in
            [".cargo", ".opam/4.14", ".local/share/uv/credentials", ".dotnet/corefx", ".julia/logs", "go"]
        {
            assert!(!shows(Path::new(hidden)), "{hidden}");
        }
    }

    #[test]
    fn every_folder_is_named_once_and_none_leads_out() {
        let folders: BTreeSet<&str> = TABLE.iter().map(|tool| tool.folder).collect();
        assert_eq!(folders.len(), TABLE.len());
        for tool in TABLE {
            for part in [tool.shown, tool.packages, tool.hidden].concat() {
                assert!(!part.starts_with('/') && !part.contains(".."), "{}: {part}", tool.folder);
            }
        }
    }
}
