//! By what an agent shows who it is: a certificate and its key, or a token.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{ConnectError, private_file};
use crate::wire::Bearer;

/// Where a certificate and its key come from.
#[derive(Clone)]
pub(super) enum Credentials {
    /// Read anew for each connection, so that a renewed certificate is taken without a restart.
    Files {
        cert: PathBuf,
        key: PathBuf,
    },
    Pem {
        cert: String,
        key: String,
    },
}

impl fmt::Debug for Credentials {
    /// Leaves the key out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Files { cert, .. } => write!(f, "Credentials({})", cert.display()),
            Credentials::Pem { .. } => f.write_str("Credentials(..)"),
        }
    }
}

impl Credentials {
    /// The texts of the certificate and the key.
    pub(super) fn texts(&self) -> Result<(String, String), ConnectError> {
        let bad = |why| ConnectError::BadIdentity { why };
        match self {
            Credentials::Pem { cert, key } => Ok((cert.clone(), key.clone())),
            Credentials::Files { cert, key } => {
                Ok((private_file::read_public(cert).map_err(bad)?, private_file::read(key).map_err(bad)?))
            }
        }
    }

    /// What the environment names, if anything.
    pub(super) fn from_env() -> Result<Option<Self>, ConnectError> {
        match (file_of("PRECLAIM_CERT"), file_of("PRECLAIM_KEY")) {
            (Some(cert), Some(key)) => Ok(Some(Credentials::Files { cert, key })),
            (None, None) => Ok(None),
            _ => Err(ConnectError::BadIdentity {
                why: "of PRECLAIM_CERT and PRECLAIM_KEY one is set without the other".into(),
            }),
        }
    }
}

/// Where a token comes from.
#[derive(Clone, Debug)]
pub(super) enum Token {
    File(PathBuf),
    Text(Text),
}

/// The text of a token, which nothing shows.
#[derive(Clone)]
pub(super) struct Text(pub(super) String);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(..)")
    }
}

impl Token {
    pub(super) fn read(&self) -> Result<Bearer, ConnectError> {
        let no_token = |place: &dyn fmt::Display| ConnectError::BadIdentity {
            why: format!("{place}: that is no token of `preclaim certs token`"),
        };
        match self {
            Token::Text(text) => Bearer::parse(&text.0).ok_or_else(|| no_token(&"the token that was given")),
            Token::File(path) => {
                let text = private_file::read(path).map_err(|why| ConnectError::BadIdentity { why })?;
                Bearer::parse(&text).ok_or_else(|| no_token(&Path::display(path)))
            }
        }
    }

    /// What the environment names, if anything.
    pub(super) fn from_env() -> Option<Self> {
        file_of("PRECLAIM_TOKEN_FILE").map(Token::File)
    }
}

fn file_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|file| !file.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_what_is_shown() {
        let pem = Credentials::Pem { cert: "public".into(), key: "hidden".into() };
        let token = Token::Text(Text("hidden".into()));
        assert!(!format!("{pem:?} {token:?}").contains("hidden"));
        let why = token.read().unwrap_err().to_string();
        assert!(why.contains("no token") && !why.contains("hidden"), "{why}");
    }
}
