//! Which intents are listed or watched.

use crate::client::{Filter, InvalidPath, Place, path};

#[derive(Debug, clap::Args)]
pub(super) struct Look {
    /// Only what has a claim at or below this path
    #[arg(value_name = "PATH-PREFIX", value_parser = place)]
    under: Option<Place>,
    /// Only what is of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl Look {
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::all();
        if let Some(under) = &self.under {
            filter = filter.under(under.clone());
        }
        if let Some(agent) = &self.agent {
            filter = filter.agent(agent);
        }
        filter
    }
}

/// A path; people end the name of a directory with `/`.
pub(super) fn place(text: &str) -> Result<Place, InvalidPath> {
    path(text.strip_suffix('/').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path_and_may_end_with_a_slash() {
        assert_eq!(place("file/src/"), path("file/src"));
        assert!(place("file//").is_err() && place("").is_err() && place("file/*").is_err());
    }
}
