//! What `/metrics` says, read.

use std::collections::BTreeMap;

use super::Spread;

/// The values of all series. Those of histograms are told apart by their bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scrape(BTreeMap<String, f64>);

/// A label and its value.
type Label<'a> = (&'a str, &'a str);

impl Scrape {
    /// Reads the text format of Prometheus, as far as a coordinator writes it: its labels are closed lists of plain
    /// words. What is not understood is left out.
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        Scrape(lines.filter_map(value).collect())
    }

    /// The value without a label; 0 where there is none.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// The value at one label; 0 where there is none.
    pub(crate) fn labelled(&self, name: &str, (label, value): Label<'_>) -> f64 {
        self.value(&format!("{name}{{{label}=\"{value}\"}}"))
    }

    /// The value of its one label, where it has one: what `preclaim_build_info` says.
    pub(crate) fn label_of(&self, name: &str) -> Option<&str> {
        let (series, _) = self.of(name).next()?;
        series.split_once('"')?.1.strip_suffix("\"}")
    }

    /// Each value of the one label of `name`, and what is there.
    pub(crate) fn by_label<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
        self.of(name)
            .filter_map(|(series, value)| Some((series.split_once('"')?.1.strip_suffix("\"}")?, *value)))
    }

    /// The histogram of that name; with labels, that at one of their values.
    pub(crate) fn spread(&self, name: &str, label: Option<Label<'_>>) -> Spread {
        let wanted = label.map(|(label, value)| format!("{label}=\"{value}\""));
        let is_it = |series: &str| match &wanted {
            Some(wanted) => series.contains(wanted.as_str()),
            None => true,
        };
        let bucket_name = format!("{name}_bucket");
        let buckets = self.of(&bucket_name).filter(|(series, _)| is_it(series));
        let buckets = buckets.filter_map(|(series, count)| Some((bound(series)?, *count))).collect();
        let sum_name = format!("{name}_sum");
        let sums = self.of(&sum_name).filter(|(series, _)| is_it(series));
        Spread::cumulative(buckets, sums.map(|(_, sum)| *sum).sum())
    }

    /// The histograms of that name at several values of a label, taken together.
    pub(crate) fn spreads<'a>(
        &self,
        name: &str,
        label: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Spread {
        let each = values.into_iter().map(|value| self.spread(name, Some((label, value))));
        each.fold(Spread::default(), |all, one| all.plus(&one))
    }

    /// The series of that metric.
    fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a f64)> {
        let from = self.0.range(name.to_owned()..);
        let series = from.map(|(series, value)| (series.as_str(), value));
        series.take_while(move |(series, _)| series.starts_with(name)).filter(move |(series, _)| {
            series[name.len()..].is_empty() || series[name.len()..].starts_with('{')
        })
    }
}

/// The upper bound of a bucket's series.
fn bound(series: &str) -> Option<f64> {
    let bound = series.split_once("le=\"")?.1.split('"').next()?;
    if bound == "+Inf" { Some(f64::INFINITY) } else { bound.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP x_total Some
# TYPE x_total counter
x_total{outcome=\"granted\"} 3
x_total{outcome=\"renewed\"} 2
x_totally 9
ready 1
h_seconds_sum{phase=\"a\"} 0.5
h_seconds_count{phase=\"a\"} 3
h_seconds_bucket{le=\"0.001\",phase=\"a\"} 1
h_seconds_bucket{le=\"+Inf\",phase=\"a\"} 3
h_seconds_bucket{le=\"0.001\",phase=\"b\"} 4
h_seconds_bucket{le=\"+Inf\",phase=\"b\"} 4
build_info{version=\"0.1.0\"} 1
# EOF
nonsense
";

    #[test]
    fn values_labels_and_histograms_are_found_by_name() {
        let scrape = Scrape::read(TEXT);
        assert_eq!((scrape.value("ready"), scrape.value("nothing")), (1.0, 0.0));
        assert_eq!(scrape.labelled("x_total", ("outcome", "renewed")), 2.0);
        assert_eq!(scrape.by_label("x_total").collect::<Vec<_>>(), [("granted", 3.0), ("renewed", 2.0)]);
        assert_eq!(scrape.label_of("build_info"), Some("0.1.0"));
        let one = scrape.spread("h_seconds", Some(("phase", "a")));
        assert_eq!(one.buckets(), [(0.001, 1.0), (f64::INFINITY, 2.0)]);
        assert_eq!((one.count(), one.sum()), (3.0, 0.5));
        assert_eq!(scrape.spreads("h_seconds", "phase", ["a", "b"]).count(), 7.0);
    }
}
