//! The files by which a coordinator and its agents know each other: read at the start, and again when it is asked to.

use std::path::{Path, PathBuf};

use super::super::output;
use crate::audit::{TextKept, TextKey};
use crate::client::private_file;
use crate::config::{Auth, Config, StateConfig, TextConfig, TlsFiles};
use crate::coordinator::{Access, Certificates, Identity};
use crate::limits;
use crate::pki::{self, Certificate, Folder, NameRule, Tokens};

/// Below this many days it is told that a certificate ends.
const SOON: i64 = 14;

/// Where they are.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Material {
    tls: TlsFiles,
    clients: Clients,
}

#[derive(Clone, Debug)]
enum Clients {
    Open,
    Tokens(PathBuf),
    Certificates { authorities: PathBuf, revoked: Option<PathBuf>, rule: NameRule },
}

impl Material {
    /// Those that `config` names.
    pub(super) fn of(config: &Config) -> Result<Self, String> {
        let tls = config.tls.clone().ok_or(
            "[tls] with cert and key is needed: it names their files\n  \
             do      preclaim certs init && preclaim certs server localhost",
        )?;
        let clients = match &config.auth {
            Auth::Open => Clients::Open,
            Auth::Token { tokens } => Clients::Tokens(tokens.clone()),
            Auth::Certificate { client_ca: Some(authorities), crl, name } => Clients::Certificates {
                authorities: authorities.clone(),
                revoked: crl.clone(),
                rule: name.clone(),
            },
            Auth::Certificate { client_ca: None, .. } => {
                return Err("[auth] client_ca is needed: it names whose certificates let an agent in\n  \
                     do      preclaim certs init, and then [auth] client_ca = \"certs/ca.crt\"\n  \
                     or      [auth] mode = \"token\", for agents without certificates\n  \
                     or      [auth] mode = \"open\": whoever reaches it is let in, as whoever it says it is"
                    .to_owned());
            }
        };
        Ok(Material { tls, clients })
    }

    /// Where they stand.
    pub(super) fn files(&self) -> Vec<&Path> {
        let mut files = vec![self.tls.cert.as_path(), &self.tls.key];
        match &self.clients {
            Clients::Open => {}
            Clients::Tokens(tokens) => files.push(tokens),
            Clients::Certificates { authorities, revoked, .. } => {
                files.push(authorities);
                files.extend(revoked.as_deref());
            }
        }
        files
    }

    /// What is in them.
    pub(super) fn read(&self) -> Result<(Identity, Access), String> {
        let chain = private_file::read_public(&self.tls.cert).map_err(of_key("tls.cert"))?;
        let key = private_file::read(&self.tls.key).map_err(of_key("tls.key"))?;
        let names =
            || format!("tls.cert and tls.key: {} and {}", self.tls.cert.display(), self.tls.key.display());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes())
            .map_err(|error| format!("{}: {error}", names()))?;
        warn_of_end(&self.tls.cert, &chain);
        Ok((identity, self.clients.read()?))
    }
}

impl Clients {
    fn read(&self) -> Result<Access, String> {
        match self {
            Clients::Open => Ok(Access::Open),
            Clients::Tokens(path) => {
                let of_file = |why| of_key("auth.tokens")(format!("{}, {why}", path.display()));
                let text = private_file::read_public(path).map_err(of_key("auth.tokens"))?;
                let list = Folder::parse_tokens(&text).map_err(of_file)?;
                Ok(Access::Tokens(Tokens::new(list).map_err(of_file)?))
            }
            Clients::Certificates { authorities, revoked, rule } => {
                let ca = private_file::read_public(authorities).map_err(of_key("auth.client_ca"))?;
                let crl = revoked.as_deref().map(private_file::read_public).transpose();
                let crl = crl.map_err(of_key("auth.crl"))?;
                let files = || match revoked {
                    Some(revoked) => {
                        format!(
                            "auth.client_ca and auth.crl: {} and {}",
                            authorities.display(),
                            revoked.display()
                        )
                    }
                    None => format!("auth.client_ca: {}", authorities.display()),
                };
                let certificates = Certificates::new(&ca, crl.as_deref(), rule.clone());
                Ok(Access::Certificates(certificates.map_err(|error| format!("{}: {error}", files()))?))
            }
        }
    }
}

/// The file that `key` names is not right.
fn of_key(key: &str) -> impl Fn(String) -> String {
    move |why| match why.contains("\n  do ") {
        true => format!("{key}: {why}"),
        false => {
            format!("{key}: {why}\n  do      see to that file, or name another; preclaim certs makes them")
        }
    }
}

/// What the log is to keep of agents' free text, with the secret that it may take.
pub(super) fn text_kept(state: &StateConfig) -> Result<TextKept, String> {
    match &state.text {
        TextConfig::Keep => Ok(TextKept::All),
        TextConfig::Omit => Ok(TextKept::Nothing),
        TextConfig::Hash { key } => {
            let short = || {
                let (path, least) = (key.display(), limits::TEXT_KEY_BYTES);
                format!(
                    "{path}: a secret of less than {least} characters\n  do      (umask 077; head -c 32 /dev/urandom | base64 > {path})"
                )
            };
            TextKey::new(&private_file::read(key)?).map(TextKept::Hashes).ok_or_else(short)
        }
    }
}

/// A certificate that ends soon is told of while there is time.
fn warn_of_end(path: &Path, chain: &str) {
    let left = Certificate::read_pem(chain).map(|certificate| certificate.days_left(pki::now()));
    match left {
        Ok(days) if days < 0 => output::talk(format_args!("warning: {} has expired", path.display())),
        Ok(days) if days < SOON => {
            output::talk(format_args!("warning: {} expires in {days} days", path.display()))
        }
        _ => {}
    }
}
