//! Why a container cannot be had or has failed, in words that name what to try; knows no session.

use bollard::errors::Error as EngineError;

/// What went wrong with the engine, an image or a container.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum DockerError {
    /// Nobody listens.
    #[error("no container engine answers at `{address}`: {error}")]
    NoEngine { address: String, error: String },
    /// The socket is there and closed to this user.
    #[error("you may not use the container engine's socket `{address}`")]
    Refused { address: String },
    /// The address is of a kind that is not spoken.
    #[error(
        "the container engine's address `{address}` cannot be used: only `unix://` and `tcp://` are known"
    )]
    BadAddress { address: String },
    /// Something answers that is no engine.
    #[error("what answers at `{address}` is not a container engine: {error}")]
    NotAnEngine { address: String, error: String },
    /// The image is not on this machine.
    #[error("the image `{image}` is not on this machine")]
    NoImage { image: String },
    /// The image cannot be fetched or made.
    #[error("the image `{image}` cannot be {verb}: {error}")]
    NotMade { image: String, verb: &'static str, error: String },
    /// The image was made for other machines.
    #[error("the image `{image}` is made for {has}, and the engine runs {needs}")]
    WrongMachine { image: String, has: String, needs: String },
    /// The image starts and has no shell.
    #[error("the image `{image}` cannot run commands: {error}")]
    NoShell { image: String, error: String },
    /// The workspace or another folder cannot be shown to a container.
    #[error("`{path}` cannot be mounted into a container: {reason}")]
    BadMount { path: String, reason: String },
    /// The workspace holds more than can be covered.
    #[error("{0}")]
    Unfit(String),
    /// A folder that is there and that the engine does not find: it has other mounts, or runs elsewhere.
    #[error("the container engine at `{address}` does not see `{path}`")]
    Unseen { address: String, path: String },
    /// A variable, limit or network that the settings ask for cannot be had.
    #[error("the engine does not accept the settings of `[sandbox.docker]`: {0}")]
    BadSettings(String),
    /// A container was made and does not hold what it should.
    #[error("the engine's containers do not hold what they must: it is not so that {0}")]
    Unproven(String),
    /// A link in the workspace stands in the way.
    #[error("`{link}` is a symbolic link and cannot be closed to commands: it is not so that {error}")]
    Linked { link: &'static str, error: String },
    /// The container is gone, stopped or paused, by somebody else's hand or for want of memory.
    #[error("the container was stopped or removed from outside while {doing}: {error}")]
    Gone { doing: &'static str, error: String },
    /// The engine stopped answering.
    #[error("the container engine at `{address}` stopped answering while {doing}: {error}")]
    Silent { address: String, doing: &'static str, error: String },
    /// The engine answered and refused.
    #[error("the container engine failed while {doing}: {error}")]
    Failed { doing: &'static str, error: String },
    /// The file that says who holds a container cannot be kept.
    #[error("the lock `{path}` cannot be kept: {error}")]
    Claim { path: String, error: String },
}

/// What is done from the moment in which a command was started.
pub(super) const RUNNING: &str = "a command ran";

impl DockerError {
    /// The same error once a command was started, whatever was being done about it.
    pub(super) fn while_it_ran(self) -> Self {
        match self {
            DockerError::Gone { error, .. } => DockerError::Gone { doing: RUNNING, error },
            DockerError::Silent { address, error, .. } => {
                DockerError::Silent { address, doing: RUNNING, error }
            }
            other => other,
        }
    }

    /// What the person may try.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            DockerError::NoEngine { .. } => {
                "start it (`systemctl start docker`), or set DOCKER_HOST to where it is"
            }
            DockerError::Refused { .. } => {
                "let an administrator add you to the group of the socket (`usermod -aG docker \"$USER\"`) and log in \
                 again; members of that group are as good as root on this machine"
            }
            DockerError::BadAddress { .. } => "set DOCKER_HOST to `unix:///path/of/docker.sock`",
            DockerError::NotAnEngine { .. } => "look at DOCKER_HOST; it must name the engine's own socket",
            DockerError::NoImage { image } => return Some(no_image(image)),
            DockerError::WrongMachine { .. } => {
                "pull or build it for this machine, or name another: `[sandbox.docker] image = …`"
            }
            DockerError::NotMade { verb: "fetched", .. } => {
                "look at the name that was typed or is set in `[sandbox.docker] image`, and at the way to its registry"
            }
            DockerError::BadSettings(_) => {
                "change it in `[sandbox.docker]`; `agon config show` says where each value comes from"
            }
            DockerError::NoShell { .. } => "name an image with `bash` or `sh`: `[sandbox.docker] image = …`",
            DockerError::Unseen { .. } => {
                "it runs on another machine or has other mounts: use a workspace that the engine has as well, or one on \
                 this machine's disk, or set DOCKER_HOST to this machine's engine"
            }
            DockerError::Unproven(_) => {
                "the engine's own settings weaken its containers; look at its daemon.json"
            }
            DockerError::Linked { .. } => {
                "put a folder in the link's place, or let the link lead to one that is there"
            }
            DockerError::Gone { doing: RUNNING, .. } => {
                "what it did until then is not known and stays; it is not run again, and a new container is made for the \
                 next command"
            }
            DockerError::Silent { doing: RUNNING, .. } => {
                "the command may still run, and what it does is not known; look whether the engine runs; `agon resume` \
                 goes on with the session"
            }
            DockerError::Gone { .. } => {
                "a new container is made for the next command; what it left in the workspace stays"
            }
            DockerError::Silent { .. } => "check that the engine runs; `agon resume` continues the session",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// The default image is never in a registry; any other may be.
fn no_image(image: &str) -> String {
    match image == super::DEFAULT_IMAGE {
        true => "`agon sandbox build` makes it, once".to_owned(),
        false => format!(
            "`agon sandbox pull` fetches it; `agon sandbox build --image {image}` makes one of this name"
        ),
    }
}

/// What kind of trouble the engine's client reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is no such thing.
    Missing,
    /// The thing is there and not in a state for this.
    Conflict,
    /// The engine did not like the question.
    Invalid,
    /// The connection failed: nobody there, or nobody any more.
    Connection,
    /// The connection was refused for want of permission.
    Permission,
    /// The answer is none of an engine.
    Nonsense,
    /// Anything else that the engine says.
    Other,
}

/// Sorts an error of the client, by its status or by the system's error beneath it.
pub(super) fn trouble(error: &EngineError) -> Trouble {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => match status_code {
            404 => Trouble::Missing,
            409 => Trouble::Conflict,
            400 => Trouble::Invalid,
            _ => Trouble::Other,
        },
        EngineError::SocketNotFoundError(_) | EngineError::RequestTimeoutError => Trouble::Connection,
        EngineError::JsonDataError { .. }
        | EngineError::JsonSerdeError { .. }
        | EngineError::APIVersionParseError {} => Trouble::Nonsense,
        other => match system_error(other).map(std::io::Error::kind) {
            Some(std::io::ErrorKind::PermissionDenied) => Trouble::Permission,
            Some(_) => Trouble::Connection,
            None if is_parse_error(other) => Trouble::Nonsense,
            None if is_connection(other) => Trouble::Connection,
            None => Trouble::Other,
        },
    }
}

/// The engine's own words without the client's frame around them, on one line.
pub(super) fn words(error: &EngineError) -> String {
    let text = match error {
        EngineError::DockerResponseServerError { message, status_code } if message.is_empty() => {
            format!("status {status_code}")
        }
        EngineError::DockerResponseServerError { message, .. } => message.clone(),
        EngineError::DockerStreamError { error } => error.clone(),
        EngineError::SocketNotFoundError(_) => "there is no such socket".to_owned(),
        EngineError::RequestTimeoutError => "it does not answer in time".to_owned(),
        other => innermost(other),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last error of a chain says the most.
fn innermost(error: &EngineError) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

fn chain(error: &EngineError) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
}

fn system_error(error: &EngineError) -> Option<&std::io::Error> {
    chain(error).find_map(|error| error.downcast_ref::<std::io::Error>())
}

/// hyper's own errors have no type to ask at this distance, only words.
fn is_parse_error(error: &EngineError) -> bool {
    chain(error).any(|error| error.to_string().contains("invalid HTTP"))
}

fn is_connection(error: &EngineError) -> bool {
    matches!(error, EngineError::HyperLegacyError { .. } | EngineError::HyperResponseError { .. })
}
