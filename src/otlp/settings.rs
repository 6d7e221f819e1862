//! Where spans go to, by the configuration and by OpenTelemetry's environment variables, which go first.

use super::encode::Resource;
use crate::config::{ENDPOINT_RULE, Endpoint, OtlpConfig, is_service};
use crate::limits;
use crate::types::Micros;

/// Where spans go to, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) resource: Resource,
    pub(super) timeout: Micros,
}

impl Settings {
    /// What `config` says and `variable` says of an environment, for a program that is called `service` where neither
    /// says another name. `None` where spans are to go nowhere.
    ///
    /// Known are OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL and _TIMEOUT, those three
    /// with TRACES_ as well, and OTEL_SERVICE_NAME.
    ///
    /// # Errors
    /// In words, where a variable is not right.
    pub fn of(
        config: Option<&OtlpConfig>,
        variable: impl Fn(&str) -> Option<String>,
        service: &str,
    ) -> Result<Option<Self>, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let of_traces = |name: &str| {
            let long = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let short = format!("OTEL_EXPORTER_OTLP_{name}");
            variable(&long).map(|value| (long, value)).or_else(|| Some((short.clone(), variable(&short)?)))
        };
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporter = variable("OTEL_TRACES_EXPORTER");
        if is_off || exporter.as_deref() == Some("none") {
            return Ok(None);
        }
        let endpoint = match of_traces("ENDPOINT") {
            Some((name, value)) => {
                let whole = name.contains("TRACES");
                let endpoint = if whole { Endpoint::exactly(&value) } else { Endpoint::of_base(&value) };
                Some(endpoint.ok_or_else(|| format!("{name}: it is {ENDPOINT_RULE}"))?)
            }
            None => config.map(|config| config.endpoint.clone()),
        };
        let Some(endpoint) = endpoint else { return Ok(None) };
        if let Some(other) = exporter.filter(|exporter| exporter != "otlp") {
            return Err(format!("OTEL_TRACES_EXPORTER: it is otlp or none, and not {other:?}"));
        }
        if let Some((name, protocol)) = of_traces("PROTOCOL").filter(|(_, value)| value != "http/protobuf") {
            return Err(format!("{name}: http/protobuf alone is spoken, and not {protocol:?}"));
        }
        let (least, most) = limits::SPANS_TIMEOUT_RANGE.into_inner();
        let timeout = match of_traces("TIMEOUT") {
            Some((name, value)) => {
                let ms =
                    value.parse().map_err(|_| format!("{name}: it is a whole number of milliseconds"))?;
                Micros::from_ms(ms).clamp(least, most)
            }
            None => config.map_or(limits::SPANS_TIMEOUT, |config| config.timeout),
        };
        let named = variable("OTEL_SERVICE_NAME").filter(|name| is_service(name));
        let service = named.or_else(|| config?.service.clone()).unwrap_or_else(|| service.to_owned());
        Ok(Some(Settings { endpoint, resource: Resource { service }, timeout }))
    }

    /// Where spans go to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> OtlpConfig {
        let endpoint = Endpoint::of_base("http://127.0.0.1:1").unwrap();
        OtlpConfig { endpoint, service: Some("of the file".into()), timeout: Micros::from_secs(3) }
    }

    fn of(config: Option<&OtlpConfig>, variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::of(config, variable, "own")
    }

    #[test]
    fn spans_go_nowhere_unless_somebody_says_where() {
        assert!(of(None, &[]).unwrap().is_none());
        assert!(of(None, &[("OTEL_SERVICE_NAME", "x")]).unwrap().is_none());
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(of(Some(&config()), &[off]).unwrap().is_none());
        }
    }

    #[test]
    fn the_environment_goes_before_the_file() {
        let settings = of(Some(&config()), &[]).unwrap().unwrap();
        assert_eq!(settings.endpoint.to_string(), "http://127.0.0.1:1/v1/traces");
        assert_eq!(
            (settings.resource.service.as_str(), settings.timeout),
            ("of the file", Micros::from_secs(3))
        );
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:2/");
        let settings = of(
            Some(&config()),
            &[
                base,
                ("OTEL_SERVICE_NAME", "x"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
                ("OTEL_TRACES_EXPORTER", "otlp"),
            ],
        );
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.endpoint().to_string(), "http://127.0.0.1:2/v1/traces");
        assert_eq!((settings.resource.service.as_str(), settings.timeout), ("x", Micros::from_ms(1_500)));
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:3/in/here");
        let settings = of(None, &[base, whole]).unwrap().unwrap();
        assert_eq!(settings.endpoint.to_string(), "http://127.0.0.1:3/in/here");
        assert_eq!((settings.resource.service.as_str(), settings.timeout), ("own", limits::SPANS_TIMEOUT));
        assert!(of(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().is_none(), "empty is unset");
    }

    #[test]
    fn what_is_not_spoken_is_said_with_its_name() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:2");
        for (wrong, said) in [
            (("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a"), "TRACES_ENDPOINT: it is an address"),
            (("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "_PROTOCOL: http/protobuf alone"),
            (("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1s"), "milliseconds"),
            (("OTEL_TRACES_EXPORTER", "zipkin"), "otlp or none"),
        ] {
            let why = of(None, &[base, wrong]).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
