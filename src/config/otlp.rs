//! The section `otlp`: where spans are sent to.

use std::fmt;

use super::rules::duration_within;
use super::tree::{Fault, Field};
use crate::limits;
use crate::types::Micros;

/// Whether this build exports traces.
pub const IS_BUILT: bool = cfg!(any(feature = "otlp", test));

/// What an endpoint may look like, for error messages.
pub const ENDPOINT_RULE: &str = "an address such as \"http://127.0.0.1:4318\"; https is not spoken: let a collector on this machine take the \
     spans further";

const NOT_BUILT: &str = "left out: this build exports no traces; one with the feature `otlp` does (cargo build --release --features otlp)";

/// Where spans are sent to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Where a collector takes spans.
    pub endpoint: Endpoint,
    /// What this coordinator is called there.
    pub service: Option<String>,
    /// How long a request may take.
    pub timeout: Micros,
}

/// An address by HTTP, without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port, as `127.0.0.1:4318` or `[::1]:4318`.
    pub authority: String,
    /// The path of requests, from its `/` on.
    pub path: String,
}

impl Endpoint {
    /// The port of collectors.
    const PORT: u16 = 4318;
    /// Where collectors take traces, below their own path.
    const TRACES: &str = "/v1/traces";

    /// That of a collector at `base`, to which the path for traces is added. `None` where it is none as
    /// [`ENDPOINT_RULE`] has it.
    pub fn of_base(base: &str) -> Option<Self> {
        let Endpoint { authority, path } = Endpoint::exactly(base)?;
        let path = format!("{}{}", path.trim_end_matches('/'), Self::TRACES);
        Some(Endpoint { authority, path })
    }

    /// That address itself.
    pub fn exactly(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // As it stands in a request's head: no space, no user, no query.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@?#\\\"<>".contains(&byte);
        if text.len() > limits::PATH_BYTES || authority.is_empty() || !rest.bytes().all(is_plain) {
            return None;
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, Self::PORT),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || port == 0 || (host.contains(':') && !is_bracketed) {
            return None;
        }
        let path = if path.is_empty() { "/" } else { path };
        Some(Endpoint { authority: format!("{host}:{port}"), path: path.to_owned() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

pub(super) const OTLP: &[&str] = &["endpoint", "service", "timeout"];

pub(super) fn otlp(field: Field<'_>) -> Result<OtlpConfig, Fault> {
    otlp_of(field, IS_BUILT)
}

fn otlp_of(field: Field<'_>, is_built: bool) -> Result<OtlpConfig, Fault> {
    if !is_built {
        return Err(field.wrong(NOT_BUILT));
    }
    let otlp = field.table(OTLP)?;
    let endpoint = |field: Field<'_>| {
        Endpoint::of_base(field.text(ENDPOINT_RULE)?).ok_or_else(|| field.wrong(ENDPOINT_RULE))
    };
    let service = otlp.optional("service", |field| {
        const RULE: &str = "a name of 1 to 128 bytes without control characters";
        let name = field.text(RULE)?;
        if is_service(name) { Ok(name.to_owned()) } else { Err(field.wrong(RULE)) }
    })?;
    let (least, most) = limits::SPANS_TIMEOUT_RANGE.into_inner();
    let timeout = otlp.optional("timeout", |field| duration_within(field, least, most))?;
    Ok(OtlpConfig {
        endpoint: otlp.required("endpoint", ENDPOINT_RULE, endpoint)?,
        service,
        timeout: timeout.unwrap_or(limits::SPANS_TIMEOUT),
    })
}

/// Whether it is a name for what exports spans.
pub fn is_service(name: &str) -> bool {
    !name.is_empty() && name.len() <= limits::AGENT_BYTES && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Node, Table, Value};
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_by_plain_http() {
        let shown = |text: &str| Endpoint::of_base(text).map(|endpoint| endpoint.to_string());
        for (text, endpoint) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector", "http://collector:4318/v1/traces"),
            ("http://[::1]:99/in/here/", "http://[::1]:99/in/here/v1/traces"),
            ("http://[::1]", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(endpoint), "{text}");
        }
        let exactly = Endpoint::exactly("http://127.0.0.1:1/x").unwrap();
        assert_eq!((exactly.authority.as_str(), exactly.path.as_str()), ("127.0.0.1:1", "/x"));
        for wrong in [
            "",
            "127.0.0.1:4318",
            "https://127.0.0.1:4318",
            "http://",
            "http:///v1",
            "http://:4318",
            "http://a:0",
            "http://a:b",
            "http://a:99999",
            "http://::1",
            "http://user@a",
            "http://a/?x",
            "http://a b",
            "http://a/\r\nx: y",
            "http://a/\u{e9}",
        ] {
            assert_eq!(shown(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_build_without_it_says_which_has_it() {
        let node = Node { value: Value::Table(Table::default()), span: 0..0 };
        let fault = otlp_of(Field::root(&node), false).unwrap_err();
        assert!(fault.explain("[otlp]").contains("--features otlp"), "{fault:?}");
        assert!(otlp_of(Field::root(&node), true).unwrap_err().explain("").contains("endpoint"));
    }
}
