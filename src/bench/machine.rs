//! On what it was measured: figures without it mean nothing.

use serde::Serialize;

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's model, where the system says.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The operating system.
    pub os: &'static str,
    /// The kernel's release, where the system says.
    pub kernel: Option<String>,
    /// Runnable tasks of the whole machine over the last minute, as it began: 0 is an idle machine.
    pub load_average: Option<f64>,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let first_word = |text: String| text.split_whitespace().next().and_then(|word| word.parse().ok());
        Machine {
            cpu: read("/proc/cpuinfo").and_then(|text| model_name(&text)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            os: std::env::consts::OS,
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            load_average: read("/proc/loadavg").and_then(first_word),
        }
    }
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// The build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// `release`, or `debug`, whose figures say nothing.
    pub profile: &'static str,
    /// Features of the package.
    pub features: Vec<&'static str>,
}

impl Build {
    /// This one.
    pub fn this() -> Self {
        let features = [("client", cfg!(feature = "client")), ("daemon", cfg!(feature = "daemon"))];
        Build {
            version: env!("CARGO_PKG_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            features: features.into_iter().filter_map(|(name, on)| on.then_some(name)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processors_model_is_told() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: A B 9\nprocessor\t: 1\nmodel name\t: C\n";
        assert_eq!(model_name(cpuinfo), Some("A B 9".to_owned()));
        assert_eq!(model_name("processor: 0"), None);
    }
}
