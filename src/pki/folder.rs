//! The directory in which an authority, its certificates, its list of revoked ones and the tokens are kept.
//!
//! ```text
//! ca.crt ca.key ca.crl      the authority, and what it has revoked
//! server.crt server.key     the coordinator
//! agents/NAME.crt NAME.key  the agents
//! issued/SERIAL.crt         every certificate that was ever issued, so that it can be revoked
//! tokens                    the SHA-256 of each token, and its agent
//! ```

mod files;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::authority::{Authority, Host, Made, Subject};
use super::certificate::{Certificate, Kind, Revoked, revoked_in};
use super::name_rule::{NameRule, encoded};
use super::tokens::{TokenDigest, drawn};
use crate::client::private_file;
use crate::limits;
use crate::types::Agent;
use crate::wire::Bearer;
use files::{Access, Overwrite};

/// Why something could not be made, or found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// What is to be made is there.
    #[error("{} is there already", path.display())]
    There {
        /// Which file.
        path: PathBuf,
    },
    /// There is no authority in the directory.
    #[error("there is no certificate authority in {}", dir.display())]
    NoAuthority {
        /// The directory.
        dir: PathBuf,
    },
    /// Nobody of that name, or nothing of that number, was ever issued.
    #[error("nothing was issued for {who}")]
    Nobody {
        /// The name or number.
        who: String,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    NotSo(String),
    /// A file cannot be used as what it is to be.
    #[error("{0}")]
    Unusable(String),
    /// The disk refused.
    #[error("{}: {error}", path.display())]
    Disk {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

/// How a certificate that was issued stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It lets its owner in.
    Good,
    /// It is still good, and another one has taken its place.
    Replaced,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The agent's name, or the names that a coordinator is reached by.
    pub name: String,
    /// What stands in it.
    pub certificate: Certificate,
    /// How it stands.
    pub standing: Standing,
    /// Its file, where it is the one in use.
    pub file: Option<PathBuf>,
}

/// What was revoked by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// A certificate.
    Certificate {
        /// Its whole number.
        serial: String,
    },
    /// A token.
    Token {
        /// Whose it was.
        agent: Agent,
    },
}

/// So many digits of a token's SHA-256 tell it from others.
const TOKEN_DIGITS: usize = 16;

/// The directory. Those who change it take turns, by a lock on a file in it.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

type Done<T> = Result<T, FolderError>;

impl Folder {
    /// The directory at `dir`, which need not be there yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Folder { dir: dir.into() }
    }

    /// The file `name` in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the certificate of `agent` is, or would be.
    pub fn agent_file(&self, agent: &Agent) -> PathBuf {
        self.dir.join("agents").join(format!("{}.crt", encoded(agent.as_str())))
    }

    /// Makes an authority that is good for `days`, and an empty revocation list.
    ///
    /// # Errors
    /// Where there is one and it is not to be written over, or the disk refuses.
    pub fn init(&self, days: u32, overwrite: bool) -> Done<Certificate> {
        for dir in [&self.dir, &self.file("agents"), &self.file("issued")] {
            files::make_dir(dir)?;
        }
        let _turn = self.turn()?;
        let overwrite = Overwrite::of(overwrite);
        let [cert, key] = ["ca.crt", "ca.key"].map(|name| self.file(name));
        [&cert, &key].into_iter().try_for_each(|path| files::check_free(path, overwrite))?;
        let now = super::now();
        let made = Authority::make(days, now).map_err(FolderError::Unusable)?;
        let authority = Authority::load(&made.cert, &made.key).map_err(FolderError::Unusable)?;
        let list = authority.list(&[], now).map_err(FolderError::Unusable)?;
        files::put(&key, made.key.as_bytes(), Access::Owner)?;
        files::put(&cert, made.cert.as_bytes(), Access::All)?;
        files::put(&self.file("ca.crl"), list.as_bytes(), Access::All)?;
        Certificate::read_pem(&made.cert).map_err(FolderError::Unusable)
    }

    /// Issues a certificate for a coordinator that is reached by `hosts`.
    ///
    /// # Errors
    /// Where there is no authority, one of `hosts` is none, there is a certificate that is not to be written over,
    /// or the disk refuses.
    pub fn server(&self, hosts: &[String], days: u32, overwrite: bool) -> Done<Certificate> {
        let host = |text: &String| {
            Host::parse(text)
                .ok_or_else(|| FolderError::NotSo(format!("{text:?} is no host name and no address")))
        };
        let hosts = hosts.iter().map(host).collect::<Done<Vec<_>>>()?;
        let _turn = self.turn()?;
        self.issue(&Subject::Server(hosts), &self.file("server.crt"), days, Overwrite::of(overwrite))
    }

    /// Issues a certificate for `agent`.
    ///
    /// # Errors
    /// Where there is no authority, there is a certificate that is not to be written over, or the disk refuses.
    pub fn agent(&self, agent: &Agent, days: u32, overwrite: bool) -> Done<Certificate> {
        let _turn = self.turn()?;
        self.issue(&Subject::Agent(agent.clone()), &self.agent_file(agent), days, Overwrite::of(overwrite))
    }

    /// Issues the coordinator's certificate anew, with a new key, for the names of the old one and for `days`, or as
    /// long as the old one. The old one stays good to its end.
    ///
    /// # Errors
    /// Where there is no old one, or the disk refuses.
    pub fn rotate_server(&self, days: Option<u32>) -> Done<Certificate> {
        let _turn = self.turn()?;
        let path = self.file("server.crt");
        let old = self.old(&path, "a server")?;
        let dns = old.dns.iter().cloned().map(Host::Dns);
        let hosts = dns.chain(old.ips.iter().copied().map(Host::Ip)).collect();
        let days = days.unwrap_or_else(|| lasted(&old));
        self.issue(&Subject::Server(hosts), &path, days, Overwrite::Yes)
    }

    /// The same for `agent`.
    ///
    /// # Errors
    /// Where it has no certificate, or the disk refuses.
    pub fn rotate_agent(&self, agent: &Agent, days: Option<u32>) -> Done<Certificate> {
        let _turn = self.turn()?;
        let path = self.agent_file(agent);
        let old = self.old(&path, agent.as_str())?;
        let days = days.unwrap_or_else(|| lasted(&old));
        self.issue(&Subject::Agent(agent.clone()), &path, days, Overwrite::Yes)
    }

    /// Revokes all certificates that were issued for `agent` and have not ended, and takes its tokens out. Returns
    /// how many of each.
    ///
    /// # Errors
    /// Where it has neither, or the disk refuses.
    pub fn revoke_agent(&self, agent: &Agent) -> Done<(usize, usize)> {
        let _turn = self.turn()?;
        let tokens = self.drop_tokens(agent)?;
        let rule = NameRule::default();
        let is_its = |certificate: &Certificate| {
            certificate.kind == Kind::Agent && rule.name_in(certificate).is_ok_and(|name| name == *agent)
        };
        let certificates = if self.file("ca.crt").exists() { self.revoke(is_its)? } else { 0 };
        match (certificates, tokens) {
            (0, 0) => Err(FolderError::Nobody { who: agent.to_string() }),
            both => Ok(both),
        }
    }

    /// Revokes the one certificate, or takes the one token out, whose number begins with the digits of `serial`.
    ///
    /// # Errors
    /// Where there is none or more than one, or the disk refuses.
    pub fn revoke_serial(&self, serial: &str) -> Done<Withdrawn> {
        let _turn = self.turn()?;
        let serial = serial.to_ascii_lowercase();
        let issued = if self.file("ca.crt").exists() { self.issued()? } else { Vec::new() };
        let tokens = self.tokens()?;
        let certificates = issued.iter().map(|one| (one.serial.clone(), None));
        let all = certificates.chain(tokens.iter().map(|(digest, agent)| (digest.to_hex(), Some(agent))));
        let mut found = all.filter(|(number, _)| number.starts_with(&serial));
        match (found.next(), found.next()) {
            (Some((number, None)), None) => {
                self.revoke(|certificate| certificate.serial == number)?;
                Ok(Withdrawn::Certificate { serial: number })
            }
            (Some((number, Some(agent))), None) => {
                let rest: Vec<_> =
                    tokens.iter().filter(|(digest, _)| digest.to_hex() != number).cloned().collect();
                self.put_tokens(&rest)?;
                Ok(Withdrawn::Token { agent: agent.clone() })
            }
            (None, _) => Err(FolderError::Nobody { who: format!("the number {serial}") }),
            (Some(_), Some(_)) => Err(FolderError::NotSo(format!("several numbers begin with {serial}"))),
        }
    }

    /// All that was issued: the authority first, then by name, the one in use first.
    ///
    /// # Errors
    /// Where there is no authority, or a file cannot be read.
    pub fn list(&self, now: i64) -> Done<Vec<Issued>> {
        let authority = self.read(&self.file("ca.crt"))?;
        let revoked = self.revoked()?;
        let mut all: Vec<Issued> = self
            .issued()?
            .into_iter()
            .chain([authority])
            .map(|certificate| self.standing(certificate, &revoked, now))
            .collect::<Done<_>>()?;
        let rank = |issued: &Issued| match issued.certificate.kind {
            Kind::Authority => 0,
            Kind::Server => 1,
            Kind::Agent => 2,
        };
        all.sort_by_key(|issued| {
            let ends_last = std::cmp::Reverse(issued.certificate.until);
            (rank(issued), issued.name.clone(), issued.file.is_none(), ends_last)
        });
        Ok(all)
    }

    /// The agents that have a token, and the first digits of its SHA-256: once for each.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn list_tokens(&self) -> Done<Vec<(String, Agent)>> {
        let first =
            |(digest, agent): (TokenDigest, Agent)| (digest.to_hex()[..TOKEN_DIGITS].to_owned(), agent);
        Ok(self.tokens()?.into_iter().map(first).collect())
    }

    /// Makes a token for `agent`, beside those that it has. It is kept nowhere but in what this returns.
    ///
    /// # Errors
    /// Where there are [`limits::TOKENS`] already, or the disk refuses.
    pub fn token(&self, agent: &Agent) -> Done<Bearer> {
        files::make_dir(&self.dir)?;
        let _turn = self.turn()?;
        let mut tokens = self.tokens()?;
        if tokens.len() >= limits::TOKENS {
            return Err(FolderError::NotSo(format!(
                "there are {} tokens, and no more are kept",
                limits::TOKENS
            )));
        }
        let token = drawn().map_err(FolderError::NotSo)?;
        tokens.push((TokenDigest::of(&token), agent.clone()));
        self.put_tokens(&tokens)?;
        Ok(token)
    }

    /// The tokens in a text of lines `SHA-256  NAME`, as `sha256sum` writes them; empty lines, and those that begin with `#`, say nothing.
    ///
    /// # Errors
    /// Which line is none.
    pub fn parse_tokens(text: &str) -> Result<Vec<(TokenDigest, Agent)>, String> {
        let lines = text.lines().enumerate();
        let said = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let read = |line: &str| {
            let (digest, name) = line.split_once("  ")?;
            Some((TokenDigest::parse(digest)?, Agent::new(name)?))
        };
        said.map(|(at, line)| read(line).ok_or_else(|| format!("line {}: no SHA-256 and name", at + 1)))
            .collect()
    }

    fn issue(&self, subject: &Subject, path: &Path, days: u32, overwrite: Overwrite) -> Done<Certificate> {
        let key = path.with_extension("key");
        [path, &key].into_iter().try_for_each(|path| files::check_free(path, overwrite))?;
        let Made { cert, key: secret } =
            self.authority()?.issue(subject, days, super::now()).map_err(FolderError::Unusable)?;
        let certificate = Certificate::read_pem(&cert).map_err(FolderError::Unusable)?;
        // What is out can be revoked, whatever happens next.
        let kept = self.file("issued").join(format!("{}.crt", certificate.serial));
        files::put(&kept, cert.as_bytes(), Access::All)?;
        files::put(&key, secret.as_bytes(), Access::Owner)?;
        files::put(path, cert.as_bytes(), Access::All)?;
        Ok(certificate)
    }

    fn revoke(&self, which: impl Fn(&Certificate) -> bool) -> Done<usize> {
        let now = super::now();
        let mut revoked = self.revoked()?;
        let mut news = 0;
        for certificate in self.issued()?.into_iter().filter(|one| one.until > now && which(one)) {
            if revoked.iter().any(|old| old.serial == certificate.serial) {
                continue;
            }
            let number = bytes_of(&certificate.serial);
            revoked.push(Revoked { serial: certificate.serial, since: now, number });
            news += 1;
        }
        if news > 0 {
            let list = self.authority()?.list(&revoked, now).map_err(FolderError::Unusable)?;
            files::put(&self.file("ca.crl"), list.as_bytes(), Access::All)?;
        }
        Ok(news)
    }

    fn standing(&self, certificate: Certificate, revoked: &[Revoked], now: i64) -> Done<Issued> {
        let (name, path) = match certificate.kind {
            Kind::Authority => ("certificate authority".to_owned(), self.file("ca.crt")),
            Kind::Server => {
                let ips = certificate.ips.iter().map(ToString::to_string);
                (
                    certificate.dns.iter().cloned().chain(ips).collect::<Vec<_>>().join(","),
                    self.file("server.crt"),
                )
            }
            Kind::Agent => match NameRule::default().name_in(&certificate) {
                Ok(agent) => (agent.to_string(), self.agent_file(&agent)),
                Err(why) => {
                    return Err(FolderError::Unusable(format!("issued/{}: {why}", certificate.serial)));
                }
            },
        };
        let in_use = path.exists() && self.read(&path)?.serial == certificate.serial;
        let standing = if revoked.iter().any(|one| one.serial == certificate.serial) {
            Standing::Revoked
        } else if certificate.until <= now {
            Standing::Expired
        } else if in_use {
            Standing::Good
        } else {
            Standing::Replaced
        };
        Ok(Issued { name, certificate, standing, file: in_use.then_some(path) })
    }

    fn authority(&self) -> Done<Authority> {
        let [cert, key] = ["ca.crt", "ca.key"].map(|name| self.file(name));
        if !cert.exists() || !key.exists() {
            return Err(FolderError::NoAuthority { dir: self.dir.clone() });
        }
        let cert = private_file::read_public(&cert).map_err(FolderError::Unusable)?;
        let key = private_file::read(&key).map_err(FolderError::Unusable)?;
        Authority::load(&cert, &key)
            .map_err(|why| FolderError::Unusable(format!("{}: {why}", self.file("ca.crt").display())))
    }

    fn read(&self, path: &Path) -> Done<Certificate> {
        if !path.exists() && path == self.file("ca.crt") {
            return Err(FolderError::NoAuthority { dir: self.dir.clone() });
        }
        let text = private_file::read_public(path).map_err(FolderError::Unusable)?;
        Certificate::read_pem(&text)
            .map_err(|why| FolderError::Unusable(format!("{}: {why}", path.display())))
    }

    fn old(&self, path: &Path, who: &str) -> Done<Certificate> {
        if path.exists() { self.read(path) } else { Err(FolderError::Nobody { who: who.to_owned() }) }
    }

    fn issued(&self) -> Done<Vec<Certificate>> {
        let dir = self.file("issued");
        let disk = |error| FolderError::Disk { path: dir.clone(), error };
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(disk)? {
            let path = entry.map_err(disk)?.path();
            if path.extension().is_some_and(|ending| ending == "crt") {
                all.push(self.read(&path)?);
            }
            if all.len() > limits::ISSUED {
                let why = format!("more than {} certificates: begin another directory", limits::ISSUED);
                return Err(FolderError::NotSo(why));
            }
        }
        Ok(all)
    }

    fn revoked(&self) -> Done<Vec<Revoked>> {
        let path = self.file("ca.crl");
        let text = private_file::read_public(&path).map_err(FolderError::Unusable)?;
        revoked_in(&text).map_err(|why| FolderError::Unusable(format!("{}: {why}", path.display())))
    }

    fn tokens(&self) -> Done<Vec<(TokenDigest, Agent)>> {
        let path = self.file("tokens");
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = private_file::read_public(&path).map_err(FolderError::Unusable)?;
        Folder::parse_tokens(&text).map_err(|why| FolderError::Unusable(format!("{}, {why}", path.display())))
    }

    fn put_tokens(&self, tokens: &[(TokenDigest, Agent)]) -> Done<()> {
        let line = |(digest, agent): &(TokenDigest, Agent)| format!("{}  {agent}\n", digest.to_hex());
        let text: String = tokens.iter().map(line).collect();
        files::put(&self.file("tokens"), text.as_bytes(), Access::Owner)
    }

    fn drop_tokens(&self, agent: &Agent) -> Done<usize> {
        let mut tokens = self.tokens()?;
        let before = tokens.len();
        tokens.retain(|(_, other)| other != agent);
        if tokens.len() < before {
            self.put_tokens(&tokens)?;
        }
        Ok(before - tokens.len())
    }

    /// Waits for the turn of this process; it ends with what is returned.
    fn turn(&self) -> Done<File> {
        let path = self.file(".lock");
        let locked = files::open_lock(&path).and_then(|file| file.lock().map(|()| file));
        match locked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(FolderError::NoAuthority { dir: self.dir.clone() })
            }
            locked => locked.map_err(|error| FolderError::Disk { path, error }),
        }
    }
}

/// For how many days it was issued.
fn lasted(certificate: &Certificate) -> u32 {
    u32::try_from(certificate.days_left(certificate.from)).unwrap_or(1).max(1)
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0);
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high) << 4 | digit(*low)).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests;
