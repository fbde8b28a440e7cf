//! Images: looked at, fetched, made from the embedded Dockerfile; knows no container.

use bollard::body_full;
use bollard::errors::Error as EngineError;
use bollard::models::ImageInspect;
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder};
use futures_util::{Stream, StreamExt};

use super::engine::Engine;
use super::error::{DockerError, Trouble, trouble, words};

/// The Dockerfile of the default image.
pub const DOCKERFILE: &str = include_str!("Dockerfile");

/// What is known of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// Its name.
    pub name: String,
    /// Its content's number, `sha256:…`.
    pub id: String,
    /// What a registry calls it, `NAME@sha256:…`, when it came from one.
    pub digest: Option<String>,
    /// Where it looks for commands.
    pub path: Option<String>,
}

impl ImageFacts {
    /// Looks at an image that must be on this machine and made for it.
    pub async fn look(engine: &Engine, name: &str) -> Result<Self, DockerError> {
        let found = engine.client.inspect_image(name).await.map_err(|error| match trouble(&error) {
            Trouble::Missing => DockerError::NoImage { image: name.to_owned() },
            Trouble::Invalid | Trouble::Other => {
                DockerError::BadSettings(format!("`image`: {}", words(&error)))
            }
            _ => engine.failure("looking at an image", &error),
        })?;
        let (system, machine) = (or_empty(found.os.as_deref()), or_empty(found.architecture.as_deref()));
        let needs = &engine.traits.machine;
        let is_other = !machine.is_empty() && !needs.is_empty() && machine != needs;
        if is_other || !matches!(system, "linux" | "") {
            let (has, needs) = (format!("{system}/{machine}"), format!("linux/{needs}"));
            return Err(DockerError::WrongMachine { image: name.to_owned(), has, needs });
        }
        Ok(Self::of(name, found))
    }

    fn of(name: &str, found: ImageInspect) -> Self {
        let environment = found.config.and_then(|config| config.env).unwrap_or_default();
        ImageFacts {
            name: name.to_owned(),
            id: found.id.unwrap_or_default(),
            digest: found.repo_digests.and_then(|digests| digests.into_iter().next()),
            path: environment.iter().find_map(|pair| pair.strip_prefix("PATH=").map(str::to_owned)),
        }
    }

    /// The image as logs and cache keys name it: whatever its name stands for later, this is one content.
    pub fn label(&self) -> String {
        match self.digest.as_deref().and_then(|digest| digest.split_once('@')) {
            Some((_, digest)) => format!("{} (id {}, digest {digest})", self.name, self.id),
            None => format!("{} (id {})", self.name, self.id),
        }
    }
}

fn or_empty(text: Option<&str>) -> &str {
    text.unwrap_or_default()
}

/// A step of fetching or making an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The layer it is about, when it is about one.
    pub layer: Option<String>,
    /// The engine's words.
    pub words: String,
    /// Bytes that are there and bytes there will be, where both are known.
    pub bytes: Option<(u64, u64)>,
}

/// Fetches an image from its registry.
pub async fn pull(
    engine: &Engine,
    image: &str,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<ImageFacts, DockerError> {
    let failed = |error: String| DockerError::NotMade { image: image.to_owned(), verb: "fetched", error };
    let client = engine.patient();
    // Without a tag an engine would fetch every tag there is.
    let has_tag = image.contains('@') || image.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let tagged = if has_tag { image.to_owned() } else { format!("{image}:latest") };
    let options = CreateImageOptionsBuilder::new().from_image(&tagged).build();
    let steps = client
        .create_image(Some(options), None, None)
        .map(|step| step.map(|info| (info.id, info.status, info.progress_detail, info.error_detail)));
    follow(engine, steps, progress, failed).await?;
    ImageFacts::look(engine, image).await
}

/// Makes an image from a Dockerfile that needs no other file.
pub async fn build(
    engine: &Engine,
    image: &str,
    dockerfile: &str,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<ImageFacts, DockerError> {
    let failed = |error: String| DockerError::NotMade { image: image.to_owned(), verb: "built", error };
    let context =
        archive_of("Dockerfile", dockerfile.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let options =
        BuildImageOptionsBuilder::new().dockerfile("Dockerfile").t(image).rm(true).forcerm(true).build();
    let client = engine.patient();
    let steps = client.build_image(options, None, Some(body_full(context.into()))).map(|step| {
        step.map(|info| (info.id, info.stream.or(info.status), info.progress_detail, info.error_detail))
    });
    follow(engine, steps, progress, failed).await?;
    ImageFacts::look(engine, image).await
}

type Step = (
    Option<String>,
    Option<String>,
    Option<bollard::models::ProgressDetail>,
    Option<bollard::models::ErrorDetail>,
);

/// Hands every step on until the work is done or has failed.
async fn follow(
    engine: &Engine,
    steps: impl Stream<Item = Result<Step, EngineError>>,
    progress: &mut (dyn FnMut(Progress) + Send),
    failed: impl Fn(String) -> DockerError,
) -> Result<(), DockerError> {
    let mut steps = std::pin::pin!(steps);
    while let Some(step) = steps.next().await {
        let (layer, said, detail, fault) = step.map_err(|error| match trouble(&error) {
            Trouble::Connection => engine.failure("the image was being made", &error),
            _ => failed(words(&error)),
        })?;
        if let Some(fault) = fault {
            return Err(failed(fault.message.unwrap_or_else(|| "the engine does not say why".to_owned())));
        }
        let size = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = detail.and_then(|detail| size(detail.current).zip(size(detail.total)));
        let words = said.unwrap_or_default().trim().to_owned();
        if !words.is_empty() {
            progress(Progress { layer, words, bytes });
        }
    }
    Ok(())
}

/// A tar archive of one file, as a build's context. Time and owner are fixed, so that the engine can reuse layers.
fn archive_of(name: &str, content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, content)?;
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_with_what_it_holds() {
        let mut facts = ImageFacts { name: "a:1".into(), id: "sha256:ab".into(), digest: None, path: None };
        assert_eq!(facts.label(), "a:1 (id sha256:ab)");
        facts.digest = Some("reg/a@sha256:cd".into());
        assert_eq!(facts.label(), "a:1 (id sha256:ab, digest sha256:cd)");
    }
}
