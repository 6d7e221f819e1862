//! The rule by which a certificate says an agent's name.

use std::fmt;

use super::Certificate;
use crate::types::Agent;

/// How the URIs begin that [`super::Folder`] writes into agents' certificates.
const OWN_PREFIX: &str = "preclaim://agent/";
/// The longest prefix: no scheme and host of use are longer.
const PREFIX_BYTES: usize = 200;

/// Which of the names in a certificate (its subject alternative names) is the agent's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// What follows this in the one URI that begins with it, `%` and two digits read as a byte.
    Uri(String),
    /// The one DNS name.
    Dns,
}

impl Default for NameRule {
    fn default() -> Self {
        NameRule::Uri(OWN_PREFIX.to_owned())
    }
}

impl fmt::Display for NameRule {
    /// As a configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameRule::Uri(prefix) => write!(f, "uri:{prefix}"),
            NameRule::Dns => f.write_str("dns"),
        }
    }
}

impl NameRule {
    /// What may stand in a configuration.
    pub const RULE: &str =
        "\"dns\", or \"uri:\" and what the agents' URIs begin with, such as \"uri:preclaim://agent/\"";

    /// The rule that `text` spells.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("uri:") {
            None => (text == "dns").then_some(NameRule::Dns),
            Some(prefix) => {
                let fits = (1..=PREFIX_BYTES).contains(&prefix.len())
                    && prefix.bytes().all(|b| b.is_ascii_graphic());
                fits.then(|| NameRule::Uri(prefix.to_owned()))
            }
        }
    }

    /// The agent that `certificate` says it is.
    ///
    /// # Errors
    /// Where it says none, or several: nobody is two agents at once.
    pub fn name_in(&self, certificate: &Certificate) -> Result<Agent, String> {
        let (names, what): (Vec<String>, _) = match self {
            NameRule::Uri(prefix) => {
                let after = certificate.uris.iter().filter_map(|uri| uri.strip_prefix(prefix.as_str()));
                (after.map(|name| decoded(name).unwrap_or_default()).collect(), format!("URI {prefix}..."))
            }
            NameRule::Dns => (certificate.dns.clone(), "DNS name".to_owned()),
        };
        match names.as_slice() {
            // A wildcard is no name of anybody's.
            [name] if !name.contains('*') || *self != NameRule::Dns => {
                Agent::new(name).ok_or_else(|| format!("the {what} in the certificate is no agent's name"))
            }
            [] => Err(format!("the certificate says no name: it has no {what}")),
            [_] => Err(format!("the {what} in the certificate is for many")),
            _ => Err(format!("the certificate says several names: it has more than one {what}")),
        }
    }

    /// The URI that says `agent` by the rule that holds unless another is configured.
    pub(super) fn own_uri(agent: &Agent) -> String {
        format!("{OWN_PREFIX}{}", encoded(agent.as_str()))
    }
}

/// With `%` and two digits for each byte that has a meaning in a URI, or in the name of a file.
pub(super) fn encoded(name: &str) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'@' => char::from(byte).to_string(),
        b'.' if !name.starts_with('.') => ".".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(one).collect()
}

/// The other way round; `None` where it is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Kind;

    fn certificate(dns: &[&str], uris: &[&str]) -> Certificate {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Certificate {
            serial: "01".into(),
            kind: Kind::Agent,
            dns: owned(dns),
            uris: owned(uris),
            ips: Vec::new(),
            from: 0,
            until: 1,
        }
    }

    #[test]
    fn a_rule_is_read_and_written_alike() {
        for text in ["dns", "uri:preclaim://agent/", "uri:spiffe://example.org/ns/a/sa/"] {
            assert_eq!(NameRule::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "DNS", "dns:", "uri:", "uri:a b", "uri:ä", "cn", &format!("uri:{}", "x".repeat(201))]
        {
            assert_eq!(NameRule::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_uri_says_the_name_after_its_prefix() {
        let rule = NameRule::default();
        let name = |uris: &[&str]| rule.name_in(&certificate(&["other"], uris)).map(|name| name.to_string());
        assert_eq!(name(&["preclaim://agent/robot-1"]), Ok("robot-1".into()));
        assert_eq!(name(&["https://elsewhere/x", "preclaim://agent/a%20b%2Fc"]), Ok("a b/c".into()));
        for none in [
            &["preclaim://agent/"][..],
            &["preclaim://agents/robot-1"],
            &["preclaim://agent/a%0Ab"],
            &["preclaim://agent/a%f"],
            &["preclaim://agent/%ff"],
            &["preclaim://agent/a", "preclaim://agent/b"],
            &[],
        ] {
            assert!(name(none).is_err(), "{none:?}");
        }
        let long = format!("preclaim://agent/{}", "x".repeat(129));
        assert!(name(&[long.as_str()]).is_err());
    }

    #[test]
    fn a_dns_name_is_the_name_where_there_is_one_alone() {
        let name = |dns: &[&str]| {
            NameRule::Dns.name_in(&certificate(dns, &["preclaim://agent/x"])).map(|n| n.to_string())
        };
        assert_eq!(name(&["robot-1.example"]), Ok("robot-1.example".into()));
        for none in [&[][..], &["a", "b"], &["*.example"]] {
            assert!(name(none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn every_name_comes_back_from_its_own_uri() {
        for name in ["robot-1", "ada@loom", "a/b c", "..", ".hidden", "100%", "ü*"] {
            let agent = Agent::new(name).unwrap();
            let uri = NameRule::own_uri(&agent);
            assert!(uri.is_ascii(), "{uri}");
            assert_eq!(NameRule::default().name_in(&certificate(&[], &[&uri])), Ok(agent));
            assert!(!encoded(name).contains('/') && !encoded(name).starts_with('.'), "{name}");
        }
    }
}
