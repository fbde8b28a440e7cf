//! What the user's own settings say of packages: which servers they come from, and what a tool inside needs to know of
//! that. Files of a workspace are not among them: others could have written those.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::upstream::Upstream;
use crate::protocol::host::Target;

/// Settings of tools: the tool, and the file under the home or from the root on.
const FILES: &[(&str, &str)] = &[
    ("cargo", ".cargo/config.toml"),
    ("cargo", ".cargo/config"),
    ("pip", ".config/pip/pip.conf"),
    ("pip", ".pip/pip.conf"),
    ("pip", "/etc/pip.conf"),
    ("uv", ".config/uv/uv.toml"),
    ("uv", "/etc/uv/uv.toml"),
    ("npm", ".npmrc"),
    ("npm", "/etc/npmrc"),
    ("go", ".config/go/env"),
    ("maven", ".m2/settings.xml"),
    ("git", ".gitconfig"),
    ("git", ".config/git/config"),
];

/// Variables that name servers of packages. A command gets them as they are, unless a password is in them.
const SERVERS: &[(&str, &str)] = &[
    ("pip", "PIP_INDEX_URL"),
    ("pip", "PIP_EXTRA_INDEX_URL"),
    ("uv", "UV_DEFAULT_INDEX"),
    ("uv", "UV_INDEX"),
    ("uv", "UV_INDEX_URL"),
    ("uv", "UV_EXTRA_INDEX_URL"),
    ("npm", "npm_config_registry"),
    ("npm", "NPM_CONFIG_REGISTRY"),
    ("go", "GOPROXY"),
    ("go", "GOSUMDB"),
];

/// Further variables that a command gets: whom tools trust, and what they fetch from where.
const PASSED: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "PIP_TRUSTED_HOST",
    "GONOSUMDB",
    "GOPRIVATE",
    "GONOPROXY",
    "GOINSECURE",
];

/// What of a file that no command sees becomes a variable inside: the tool, the key, the variable.
const KEYS: &[(&str, &str, &str)] = &[
    ("pip", "index-url", "PIP_INDEX_URL"),
    ("pip", "extra-index-url", "PIP_EXTRA_INDEX_URL"),
    ("pip", "trusted-host", "PIP_TRUSTED_HOST"),
    ("npm", "registry", "npm_config_registry"),
    ("go", "GOPROXY", "GOPROXY"),
    ("go", "GOSUMDB", "GOSUMDB"),
    ("go", "GONOSUMDB", "GONOSUMDB"),
    ("go", "GOPRIVATE", "GOPRIVATE"),
    ("go", "GONOPROXY", "GONOPROXY"),
    ("go", "GOINSECURE", "GOINSECURE"),
];

/// Most bytes of a file that are read.
const MOST: u64 = 256 * 1024;
/// Folders in which a command sees a file of certificates.
const SHOWN: [&str; 3] = ["/etc/", "/usr/", "/opt/"];

/// True for a variable that commands may get from here.
pub fn is_passed_on(name: &str) -> bool {
    let of_keys = KEYS.iter().any(|(.., variable)| *variable == name);
    of_keys || PASSED.contains(&name) || SERVERS.iter().any(|(_, variable)| *variable == name)
}

/// Where a server is named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    target: Target,
    tool: &'static str,
    place: String,
}

/// The servers that the user's settings name, and the variables that tell tools of them.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    all: Vec<Origin>,
    settings: BTreeMap<String, OsString>,
    upstream: Option<Upstream>,
}

impl Origins {
    /// Reads the settings of the user with this home and these variables.
    pub fn of(home: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let mut origins = Origins { upstream: Upstream::of(variable), ..Origins::default() };
        for (tool, file) in FILES {
            let is_of_home = !file.starts_with('/');
            // A path from the root on stays what it is.
            let Some(path) = home.or((!is_of_home).then_some(Path::new("/"))).map(|home| home.join(file))
            else {
                continue;
            };
            let shown = if is_of_home { format!("~/{file}") } else { (*file).to_owned() };
            // A file that is not there, or is none, names nothing.
            let text = crate::host_files::text(&path, MOST).unwrap_or_default();
            origins.read(tool, &shown, &text);
        }
        for (tool, name) in SERVERS {
            let Some(value) = variable(name) else { continue };
            origins.find(tool, &format!("${name}"), &value.to_string_lossy());
            origins.pass(name, value);
        }
        for name in PASSED {
            if let Some(value) = variable(name) {
                origins.pass(name, value);
            }
        }
        origins
    }

    /// Variables for commands.
    pub fn settings(&self) -> &BTreeMap<String, OsString> {
        &self.settings
    }

    /// The user's own proxy.
    pub fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_ref()
    }

    /// The servers.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.all.iter().map(|origin| &origin.target)
    }

    /// Where a server is named; none where no settings name it.
    pub fn words(&self, target: &Target) -> Option<String> {
        let origin = self.all.iter().find(|origin| origin.target == *target)?;
        Some(format!("named by {} in {}", origin.tool, origin.place))
    }

    fn read(&mut self, tool: &'static str, place: &str, text: &str) {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        for line in lines {
            self.find(tool, place, line);
            let Some((key, value)) = line.split_once('=') else { continue };
            let named = KEYS.iter().find(|(of, name, _)| *of == tool && *name == key.trim());
            if let Some((_, _, variable)) = named {
                self.pass(variable, value.trim().trim_matches('"').into());
            }
        }
    }

    /// A password is kept back, and so is a file that is not seen inside.
    fn pass(&mut self, name: &str, value: OsString) {
        let text = value.to_string_lossy();
        let is_hidden = text.starts_with('/') && !SHOWN.iter().any(|shown| text.starts_with(shown));
        if !has_password(&text) && !is_hidden {
            self.settings.insert(name.to_owned(), value);
        }
    }

    fn find(&mut self, tool: &'static str, place: &str, text: &str) {
        for target in servers_in(text) {
            self.all.push(Origin { target, tool, place: place.to_owned() });
        }
    }
}

/// The servers of the addresses in a text.
fn servers_in(text: &str) -> impl Iterator<Item = Target> {
    text.match_indices("://").filter_map(|(at, _)| {
        let port = match text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next() {
            Some("https") => 443,
            Some("http") => 80,
            _ => return None,
        };
        let rest = &text[at + 3..];
        let end =
            rest.find(|c: char| c.is_whitespace() || "/\"'`,|;<>()?#\\".contains(c)).unwrap_or(rest.len());
        let authority = rest[..end].rsplit('@').next()?;
        match authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
            Some((host, port)) => Target::new(host, port),
            None => Target::new(authority, port),
        }
    })
}

fn has_password(text: &str) -> bool {
    let authority =
        |rest: &str| rest.split(['/', '?', '#', ',']).next().is_some_and(|authority| authority.contains('@'));
    text.split("://").skip(1).any(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_with_the_tool_and_the_place_that_name_them() {
        let home = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(
            ".cargo/config.toml",
            "# https://not.example/\n[registries.m]\nindex = \"https://crates.example:8443/index/\"\n",
        );
        put(".npmrc", "registry = http://npm.example/r/\n//npm.example/:_authToken=x\n");
        put(".config/pip/pip.conf", "[global]\nindex-url = https://u:p@pip.example/simple\n");
        put(".config/go/env", "GOPROXY=https://go.example|https://go2.example,direct\n");
        let variable = |name: &str| match name {
            "UV_DEFAULT_INDEX" => Some("https://uv.example/simple".into()),
            "SSL_CERT_FILE" => Some("/etc/ca.pem".into()),
            "PIP_CERT" => Some("/home/x/ca.pem".into()),
            _ => None,
        };
        let origins = Origins::of(Some(home.path()), &variable);
        let words = |host: &str, port: u16| origins.words(&Target::new(host, port).unwrap());
        assert_eq!(words("crates.example", 8443).unwrap(), "named by cargo in ~/.cargo/config.toml");
        assert_eq!(words("npm.example", 80).unwrap(), "named by npm in ~/.npmrc");
        assert_eq!(words("pip.example", 443).unwrap(), "named by pip in ~/.config/pip/pip.conf");
        assert_eq!(words("go2.example", 443).unwrap(), "named by go in ~/.config/go/env");
        assert_eq!(words("uv.example", 443).unwrap(), "named by uv in $UV_DEFAULT_INDEX");
        assert_eq!((words("not.example", 443), words("crates.example", 443)), (None, None));
        let settings = origins.settings();
        assert_eq!(settings["npm_config_registry"], "http://npm.example/r/");
        assert_eq!(settings["GOPROXY"], "https://go.example|https://go2.example,direct");
        assert_eq!(settings["SSL_CERT_FILE"], "/etc/ca.pem");
        assert!(
            !settings.contains_key("PIP_INDEX_URL") && !settings.contains_key("PIP_CERT"),
            "{settings:?}"
        );
    }
}
