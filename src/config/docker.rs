//! The table `[sandbox.docker]`: what a container may have; knows no engine.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::number::Thousandths;

/// How containers are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DockerTable {
    /// The image commands run in; default `agon-sandbox`, which `agon sandbox build` makes.
    pub image: Option<String>,
    /// Memory of a container, temporary files included, such as `"512m"`; default `"4g"`.
    pub memory: Option<Bytes>,
    /// Processors of a container, such as `1.5`; default 2.
    pub cpus: Option<Thousandths>,
    /// Processes and threads of a container; default 512.
    #[schemars(range(min = 16))]
    pub pids: Option<u32>,
    /// The engine's network containers are on, such as `bridge`; default `none`: no network.
    pub network: Option<String>,
    /// Folders and files that are shown beside the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountTable>,
    /// Names of variables that commands get as they are in agon's own environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<VariableName>,
}

/// A folder or file that is shown to containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MountTable {
    /// Where it is on this machine; absolute.
    pub source: AbsolutePath,
    /// Where it is to be seen; default the same place.
    pub target: Option<AbsolutePath>,
    /// True when commands may change it; default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
}

impl DockerTable {
    /// The values that hold when nobody says otherwise.
    pub fn defaults() -> Self {
        DockerTable {
            image: Some("agon-sandbox".to_owned()),
            memory: Some(Bytes(4 << 30)),
            cpus: Some(crate::config::number::Decimal(2_000)),
            pids: Some(512),
            network: Some("none".to_owned()),
            mounts: Vec::new(),
            env: Vec::new(),
        }
    }

    /// What makes the values unusable together or alone, in words that name the key; none when they can be tried.
    pub fn fault(&self) -> Option<String> {
        let empty = |name: &str, value: &Option<String>| {
            value.as_deref().is_some_and(|text| text.trim().is_empty()).then(|| format!("`{name}` is empty"))
        };
        let small = |name: &str, is_small: bool, least: &str| {
            is_small.then(|| format!("`{name}` must be {least} or more"))
        };
        let large = |name: &str, is_large: bool, most: &str| {
            is_large.then(|| format!("`{name}` must be {most} or less"))
        };
        empty("image", &self.image)
            .or_else(|| empty("network", &self.network))
            .or_else(|| small("memory", self.memory.is_some_and(|memory| memory.0 < 16 << 20), "16m"))
            .or_else(|| small("cpus", self.cpus.is_some_and(|cpus| cpus.0 < 10), "0.01"))
            .or_else(|| small("pids", self.pids.is_some_and(|pids| pids < 16), "16"))
            .or_else(|| large("memory", self.memory.is_some_and(|memory| memory.0 > 64 << 40), "65536g"))
            .or_else(|| large("cpus", self.cpus.is_some_and(|cpus| cpus.0 > 1_000_000), "1000"))
            .or_else(|| large("pids", self.pids.is_some_and(|pids| pids > 4_194_304), "4194304"))
            .or_else(|| self.shared_network())
    }

    /// A container in another's network sees what that one serves: the machine itself, or another container.
    fn shared_network(&self) -> Option<String> {
        let network = self.network.as_deref()?;
        let is_shared = network == "host" || network.starts_with("container:");
        is_shared
            .then(|| format!("`network` must not be `{network}`: its services would be open to commands"))
    }
}

/// A number of bytes, written as a whole number with `k`, `m` or `g` for 1024, 1024² and 1024³.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a size such as \"512m\" or \"2g\"");
        let lower = text.trim().to_ascii_lowercase();
        let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
        let (digits, unit) = lower.split_at(end);
        let shift = match unit {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            _ => return Err(bad()),
        };
        let number: u64 = digits.parse().map_err(|_| bad())?;
        number
            .checked_mul(1 << shift)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .map(Bytes)
            .ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes % (1 << 30) == 0 => write!(f, "{}g", bytes >> 30),
            bytes if bytes > 0 && bytes % (1 << 20) == 0 => write!(f, "{}m", bytes >> 20),
            bytes if bytes > 0 && bytes % (1 << 10) == 0 => write!(f, "{}k", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> Self {
        bytes.to_string()
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[0-9]+([kKmMgG]([iI]?[bB])?|[bB])?$",
            "description": "A number of bytes such as \"512m\" or \"2g\"."
        })
    }
}

/// A path from the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct AbsolutePath(pub PathBuf);

impl TryFrom<String> for AbsolutePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = PathBuf::from(&text);
        let is_plain = !path.components().any(|part| part == std::path::Component::ParentDir);
        match path.is_absolute() && is_plain && path.parent().is_some() {
            true => Ok(AbsolutePath(path)),
            false => Err(format!("`{text}` is not an absolute path under `/` without `..`")),
        }
    }
}

impl From<AbsolutePath> for String {
    fn from(path: AbsolutePath) -> Self {
        path.0.display().to_string()
    }
}

/// The name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct VariableName(pub String);

impl TryFrom<String> for VariableName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = text.chars().all(is_word) && text.chars().next().is_some_and(|c| !c.is_ascii_digit());
        match is_name {
            true => Ok(VariableName(text)),
            false if text.contains('=') => Err(format!(
                "`{text}` sets a variable; only names are taken here, and values come from agon's environment"
            )),
            false => Err(format!("`{text}` is not the name of a variable")),
        }
    }
}

impl From<VariableName> for String {
    fn from(name: VariableName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes, shown) in [
            ("512m", 512 << 20, "512m"),
            ("2G", 2 << 30, "2g"),
            ("1024", 1024, "1k"),
            ("3MiB", 3 << 20, "3m"),
            ("7b", 7, "7"),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
        for text in ["", "m", "-1m", "1.5g", "1t", "9999999999g", "18446744073709551615"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    fn read(text: &str) -> Result<DockerTable, String> {
        let table: DockerTable = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        table.fault().map_or(Ok(table), Err)
    }

    #[test]
    fn values_that_cannot_be_kept_are_named() {
        for (text, part) in [
            ("memory = \"4q\"", "4q"),
            ("memory = \"1m\"", "`memory`"),
            ("memory = \"900000g\"", "`memory`"),
            ("cpus = 0", "`cpus`"),
            ("pids = 3", "`pids`"),
            ("pids = 99999999", "`pids`"),
            ("cpus = 1001", "`cpus`"),
            ("image = \" \"", "`image`"),
            ("network = \"host\"", "`network`"),
            ("network = \"container:db\"", "`network`"),
            ("env = [\"A=b\"]", "only names"),
            ("env = [\"1A\"]", "1A"),
            ("mounts = [{ source = \"data\" }]", "`data`"),
            ("mounts = [{ source = \"/a/../b\" }]", ".."),
            ("mounts = [{ source = \"/\" }]", "`/`"),
            ("mounts = [{ source = \"/a\", target = \"b\" }]", "`b`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_whole_table_is_read() {
        let table = read(
            "image = \"rust:1\"\nmemory = \"1g\"\ncpus = 1.5\npids = 64\nnetwork = \"bridge\"\nenv = [\"GOPROXY\"]\n\
             mounts = [{ source = \"/opt/a b\" }, { source = \"/x\", target = \"/y\", writable = true }]\n",
        )
        .unwrap();
        assert_eq!((table.cpus.unwrap().0, table.mounts.len(), table.mounts[1].writable), (1_500, 2, true));
        assert_eq!(toml::from_str::<DockerTable>(&toml::to_string(&table).unwrap()).unwrap(), table);
        assert_eq!(DockerTable::defaults().fault(), None);
    }
}
