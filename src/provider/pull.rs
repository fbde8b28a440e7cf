//! Fetches a model file from a server: continues what was begun, checks size and SHA-256; asks no questions.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, LOCATION, RANGE};
use reqwest::{Response, StatusCode, Url};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::protocol::expand::hex;
use crate::provider::http;

/// How model files end.
const ENDING: &str = ".gguf";

/// What every such file begins with.
const MAGIC: &[u8] = b"GGUF";

/// Until the connection stands, and between two pieces.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// Servers that send on to another one, at most.
const HOPS: usize = 5;

/// Times a broken connection is resumed without a single new byte in between.
const TRIES: u32 = 3;

/// Bytes that stay free on the disk.
const SPARE: u64 = 64 << 20;

/// What is to be fetched.
#[derive(Clone, Debug)]
pub struct Pull {
    /// Where it is.
    pub url: String,
    /// The folder it comes into; made when missing.
    pub folder: PathBuf,
    /// Its name there; that of the address when absent.
    pub name: Option<String>,
    /// The SHA-256 it must have, in hex.
    pub sha256: Option<String>,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// Whether that is the one that was asked for, or that the server named.
    pub is_checked: bool,
}

/// Why a file cannot be fetched.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch `{url}`: {why}")]
pub struct PullError {
    /// Where it is, without a name and password in it.
    url: String,
    why: String,
    hint: Option<&'static str>,
}

impl PullError {
    /// What the user may try.
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }
}

/// Why something failed, before it is said of which address.
struct Why(String, Option<&'static str>, bool);

impl Why {
    fn new(why: impl Into<String>) -> Self {
        Why(why.into(), None, false)
    }

    fn hint(why: impl Into<String>, hint: &'static str) -> Self {
        Why(why.into(), Some(hint), false)
    }

    fn broken_off(why: impl Into<String>) -> Self {
        Why(why.into(), Some("run the same command again: it continues where it stopped"), true)
    }
}

impl Pull {
    /// Fetches the file. `progress` gets the bytes that are there and that there will be.
    ///
    /// What was begun is continued only if the server still has the same content, by its ETag.
    pub async fn run(&self, progress: &mut (dyn FnMut(u64, u64) + Send)) -> Result<Pulled, PullError> {
        let (mut last, mut tries) = (0, 0);
        loop {
            let mut there = 0;
            let mut seen = |bytes, whole| {
                there = bytes;
                progress(bytes, whole);
            };
            let Why(why, hint, is_broken_off) = match self.attempt(&mut seen).await {
                Ok(pulled) => return Ok(pulled),
                Err(why) => why,
            };
            tries = if there > last { 0 } else { tries + 1 };
            last = last.max(there);
            if !is_broken_off || tries >= TRIES {
                let url = match Url::parse(&self.url) {
                    Ok(url) => without_credentials(url).to_string(),
                    Err(_) => self.url.clone(),
                };
                return Err(PullError { url, why, hint });
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn attempt(&self, progress: &mut (dyn FnMut(u64, u64) + Send)) -> Result<Pulled, Why> {
        let url = Url::parse(&self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| Why::new("it is no http or https URL"))?;
        let name = self.name_of(&url)?;
        let wanted = self.sha256.as_deref().map(str::to_ascii_lowercase);
        if wanted
            .as_ref()
            .is_some_and(|wanted| wanted.len() != 64 || !wanted.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err(Why::new("a SHA-256 has 64 hexadecimal digits"));
        }
        let target = self.folder.join(&name);
        if let Some(wanted) = wanted.clone().filter(|_| target.is_file()) {
            let checked = tokio::task::spawn_blocking(move || there_already(target, &wanted)).await;
            return checked.map_err(|_| Why::new("its check was stopped"))?;
        }
        let mut part = Part::open(&self.folder, &name)?;
        let (mut response, named) = ask(url, &part).await?;
        let whole = part.accept(&response)?;
        progress(part.bytes, whole);
        loop {
            let piece = timeout(PATIENCE.1, response.chunk()).await;
            let cut = |why: &str| Why::broken_off(format!("{why} after {} of {whole} bytes", part.bytes));
            match piece {
                Err(_) => return Err(cut("its server fell silent")),
                Ok(Err(_)) => return Err(cut("the connection broke")),
                Ok(Ok(None)) if part.bytes < whole => return Err(cut("the answer ended")),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(piece))) => part.write(&piece, whole)?,
            }
            progress(part.bytes, whole);
        }
        let wanted = wanted.or(named);
        tokio::task::spawn_blocking(move || part.finish(wanted.as_deref()))
            .await
            .map_err(|_| Why::new("its check was stopped"))?
    }

    /// A plain name that ends as model files do.
    fn name_of(&self, url: &Url) -> Result<String, Why> {
        let last = url.path_segments().and_then(|mut all| all.next_back()).unwrap_or_default();
        let name = self.name.clone().unwrap_or_else(|| last.replace("%20", " "));
        let is_plain =
            !name.starts_with('.') && !name.contains(['/', '\\', '%']) && !name.contains(char::is_control);
        if !is_plain || name.len() <= ENDING.len() || !name.ends_with(ENDING) {
            let why = format!("`{name}` is no name of a GGUF file");
            return Err(Why::hint(why, "name it: --name MODEL.gguf"));
        }
        Ok(name)
    }
}

/// Asks for the file, or for what is missing of it; gives the SHA-256 that a server on the way named as well.
async fn ask(mut url: Url, part: &Part) -> Result<(Response, Option<String>), Why> {
    let mut named = None;
    for _ in 0..HOPS {
        let client = http::client(&url, PATIENCE.0).map_err(Why::new)?;
        let mut request = client.get(url.clone());
        if let Some(tag) = part.tag.as_ref().filter(|_| part.bytes > 0) {
            request = request.header(RANGE, format!("bytes={}-", part.bytes)).header(IF_RANGE, tag);
        }
        let sent = timeout(PATIENCE.1, request.send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Why::broken_off(http::root_words(&error))),
            Err(_) => return Err(Why::broken_off("its server does not answer")),
        };
        // Hugging Face names the content where it sends on to the server that has it.
        let linked = text(response.headers(), "x-linked-etag").map(|tag| tag.trim_matches('"').to_owned());
        named = linked.filter(|tag| tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit())).or(named);
        if !response.status().is_redirection() {
            return Ok((response, named));
        }
        let to =
            response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| url.join(to).ok());
        let to = to.ok_or_else(|| Why::new("its server sends on to nowhere"))?;
        if !matches!(to.scheme(), "http" | "https") {
            return Err(Why::new("its server sends on to what is no http or https URL"));
        }
        if url.scheme() == "https" && to.scheme() != "https" {
            return Err(Why::new("its server sends on to an address without encryption"));
        }
        url = to;
    }
    Err(Why::new("its servers send on in a circle"))
}

/// A file that is not complete yet, next to its final place.
struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    bytes: u64,
    /// What its server calls this content.
    tag: Option<String>,
}

impl Drop for Part {
    /// A file of which nothing came is not left behind.
    fn drop(&mut self) {
        if self.bytes == 0 {
            let _ = (std::fs::remove_file(&self.path), std::fs::remove_file(self.tag_file()));
        }
    }
}

impl Part {
    fn open(folder: &Path, name: &str) -> Result<Self, Why> {
        let failed = |error: std::io::Error| Why::new(format!("`{}`: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let target = folder.join(name);
        if target.symlink_metadata().is_ok() {
            let why = format!("`{}` is there already", target.display());
            return Err(Why::hint(why, "delete it first, or give another name: --name MODEL.gguf"));
        }
        let path = folder.join(format!("{name}.part"));
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(Why::new("another agon is fetching it"));
        }
        let bytes = file.metadata().map_err(failed)?.len();
        let tag = std::fs::read_to_string(path.with_extension("part-tag")).ok();
        Ok(Part { file, path, target, bytes, tag })
    }

    fn tag_file(&self) -> PathBuf {
        self.path.with_extension("part-tag")
    }

    /// Takes what the server offers: the rest, or all of it. Gives the size of the whole.
    fn accept(&mut self, response: &Response) -> Result<u64, Why> {
        let headers = response.headers();
        let (status, length) = (response.status(), response.content_length());
        let whole = match status {
            StatusCode::PARTIAL_CONTENT => {
                // `bytes 100-199/200`
                let range = text(headers, CONTENT_RANGE.as_str()).unwrap_or_default();
                let range = range.strip_prefix("bytes ").and_then(|range| range.split_once('/'));
                let start = range.and_then(|(range, _)| range.split('-').next()?.parse::<u64>().ok());
                let whole = range.and_then(|(_, whole)| whole.parse::<u64>().ok());
                whole
                    .filter(|_| start == Some(self.bytes))
                    .ok_or_else(|| Why::new("its server sends another part than the one asked for"))?
            }
            StatusCode::OK => {
                self.restart()?;
                length.ok_or_else(|| Why::new("its server does not say how large it is"))?
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                self.restart()?;
                return Err(Why::broken_off("the file has changed on its server"));
            }
            status if status.is_server_error() => {
                return Err(Why::broken_off(format!("its server answered {status}")));
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let hint =
                    "agon sends no key: fetch it with your browser, and put it into the models' folder";
                return Err(Why::hint(format!("its server answered {status}"), hint));
            }
            status => return Err(Why::new(format!("its server answered {status}"))),
        };
        let kind = text(headers, "content-type").unwrap_or_default();
        if kind.starts_with("text/html") {
            return Err(page());
        }
        let folder = self.target.parent().unwrap_or(Path::new("."));
        let free =
            rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let missing = whole.saturating_sub(self.bytes);
        if free < missing.saturating_add(SPARE) {
            let why = format!("it needs {missing} bytes more, and {free} are free in `{}`", folder.display());
            return Err(Why::hint(why, "make room, then run the same command again"));
        }
        let tag = text(headers, ETAG.as_str()).filter(|tag| !tag.starts_with("W/"));
        let kept = match &tag {
            Some(tag) => std::fs::write(self.tag_file(), tag),
            None => std::fs::remove_file(self.tag_file()).or(Ok(())),
        };
        kept.map_err(|error| Why::new(format!("`{}`: {error}", self.tag_file().display())))?;
        self.tag = tag;
        Ok(whole)
    }

    fn restart(&mut self) -> Result<(), Why> {
        self.bytes = 0;
        self.file.set_len(0).map_err(|error| Why::new(format!("`{}`: {error}", self.path.display())))
    }

    fn write(&mut self, piece: &[u8], whole: u64) -> Result<(), Why> {
        let after = self.bytes + piece.len() as u64;
        if after > whole {
            return Err(Why::new(format!("its server sends more than the {whole} bytes it promised")));
        }
        let begins = self.bytes == 0 && !piece.is_empty();
        if begins && !MAGIC.starts_with(piece.get(..MAGIC.len()).unwrap_or(piece)) {
            let is_page = piece.trim_ascii_start().starts_with(b"<");
            let _ = std::fs::remove_file(&self.path);
            return Err(if is_page { page() } else { Why::new("it is no GGUF file") });
        }
        self.file.write_all(piece).map_err(|error| {
            Why::hint(
                format!("`{}`: {error}", self.path.display()),
                "make room, then run the same command again",
            )
        })?;
        self.bytes = after;
        Ok(())
    }

    /// Checks the content and puts it into its place.
    fn finish(mut self, wanted: Option<&str>) -> Result<Pulled, Why> {
        let failed = |error: std::io::Error| Why::new(format!("`{}`: {error}", self.path.display()));
        let sha256 = digest(&mut self.file).map_err(failed)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != sha256) {
            let _ = (std::fs::remove_file(&self.path), std::fs::remove_file(self.tag_file()));
            let why = format!("its SHA-256 is {sha256} and not {wanted}; what was fetched is deleted");
            return Err(Why::hint(why, "compare the number with the one its publisher names"));
        }
        self.file.sync_all().map_err(failed)?;
        std::fs::rename(&self.path, &self.target).map_err(failed)?;
        let _ = std::fs::remove_file(self.tag_file());
        Ok(Pulled { file: self.target.clone(), bytes: self.bytes, sha256, is_checked: wanted.is_some() })
    }
}

/// A file of this name: what was wanted, or another one.
fn there_already(file: PathBuf, wanted: &str) -> Result<Pulled, Why> {
    let failed = |error: std::io::Error| Why::new(format!("`{}`: {error}", file.display()));
    let mut open = File::open(&file).map_err(failed)?;
    let (sha256, bytes) = (digest(&mut open).map_err(failed)?, open.metadata().map_err(failed)?.len());
    if sha256 != wanted {
        let why = format!("`{}` is there already, and its SHA-256 is {sha256}", file.display());
        return Err(Why::hint(why, "delete it first, or give another name: --name MODEL.gguf"));
    }
    Ok(Pulled { file, bytes, sha256, is_checked: true })
}

fn page() -> Why {
    let hint = "use the address of the download; on Hugging Face it has `/resolve/` in place of `/blob/`";
    Why::hint("it is a web page and no GGUF file", hint)
}

fn digest(file: &mut File) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn without_credentials(mut url: Url) -> Url {
    // An address that can have a host takes both.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url
}
