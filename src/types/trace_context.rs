//! Where something stands in a trace, as W3C Trace Context has it. It decides nothing, and no digest or record knows it.

use std::fmt;

use crate::limits;

/// Whose doing something is, as tracing sees it: a trace, a span in it, and whether anybody records them.
///
/// What is malformed is no context, never an error: that is how the standard has it, since a trace must not break
/// what it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    state: Box<str>,
}

/// Where the parts of a `traceparent` begin and end.
const TRACE: std::ops::Range<usize> = 3..35;
const SPAN: std::ops::Range<usize> = 36..52;
const FLAGS: std::ops::Range<usize> = 53..55;

impl TraceContext {
    /// Bytes of a `traceparent` of the version that is spoken here.
    pub const PARENT_BYTES: usize = 55;

    /// The flag that says that the span is recorded.
    const SAMPLED: u8 = 1;
    /// The flag that says that the trace's number was drawn by chance.
    const RANDOM: u8 = 2;

    /// The span `span` of the trace `trace`; `None` where one of them is 0, which is no number of either.
    pub fn new(trace: u128, span: u64, is_sampled: bool) -> Option<Self> {
        let flags = if is_sampled { Self::SAMPLED } else { 0 };
        (trace != 0 && span != 0).then(|| TraceContext { trace, span, flags, state: "".into() })
    }

    /// What `traceparent` and `tracestate` say, as they are in headers or in the environment. A `tracestate` that is
    /// malformed or too long is left out; without a right `traceparent` there is no context.
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let (parent, later) = traceparent.as_bytes().split_at_checked(Self::PARENT_BYTES)?;
        let version = hex(parent.get(..2)?)?;
        // A later version may say more, after another dash.
        let is_known = match version {
            0 => later.is_empty(),
            0xff => false,
            _ => later.first().is_none_or(|byte| *byte == b'-'),
        };
        let has_dashes = [2, TRACE.end, SPAN.end].into_iter().all(|at| parent.get(at) == Some(&b'-'));
        if !is_known || !has_dashes {
            return None;
        }
        let trace = hex(parent.get(TRACE)?)?;
        let span = u64::try_from(hex(parent.get(SPAN)?)?).ok()?;
        let flags = u8::try_from(hex(parent.get(FLAGS)?)?).ok()? & (Self::SAMPLED | Self::RANDOM);
        let known = TraceContext::new(trace, span, false)?;
        Some(TraceContext { flags, ..known }.with_state(tracestate))
    }

    /// With what tracing systems say of it, a `tracestate`; with none where that is malformed or too long.
    #[must_use]
    pub fn with_state(self, tracestate: &str) -> Self {
        let state = if is_state(tracestate) { tracestate } else { "" };
        TraceContext { state: state.into(), ..self }
    }

    /// The number of its trace; not 0.
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// The number of its span; not 0.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Its flags, those that are known here: 1 recorded, 2 drawn by chance.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether it is recorded: what is done for it is recorded too, or else nothing of it.
    pub fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// What tracing systems say of it, up to [`limits::TRACESTATE_BYTES`]; mostly nothing.
    pub fn state(&self) -> &str {
        &self.state
    }
}

impl fmt::Display for TraceContext {
    /// As a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The number that lower-case hexadecimal digits spell, 32 at most.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Whether `text` is a `tracestate` of bounded length.
fn is_state(text: &str) -> bool {
    if text.len() > limits::TRACESTATE_BYTES {
        return false;
    }
    let members = || text.split(',').map(|member| member.trim_matches([' ', '\t']));
    let mut keys: Vec<&str> = Vec::new();
    for member in members().filter(|member| !member.is_empty()) {
        let Some((key, value)) = member.split_once('=') else { return false };
        let is_new = !keys.contains(&key);
        if !is_new || !is_key(key) || !is_value(value) || keys.len() == limits::TRACESTATE_MEMBERS {
            return false;
        }
        keys.push(key);
    }
    true
}

fn is_key(key: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_next = |byte: &u8| is_first(byte) || b"_-*/@".contains(byte);
    key.len() <= 256 && key.as_bytes().first().is_some_and(is_first) && key.as_bytes().iter().all(is_next)
}

fn is_value(value: &str) -> bool {
    let is_of_it = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'=';
    let ends = value.as_bytes().last().is_some_and(|byte| *byte != b' ');
    value.len() <= 256 && ends && value.as_bytes().iter().all(is_of_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_again() {
        let context = TraceContext::parse(PARENT, "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7").unwrap();
        assert_eq!(context.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span(), context.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), PARENT);
        assert_eq!(context.state(), "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7");
        let unsampled = PARENT.replace("-01", "-00");
        assert!(!TraceContext::parse(&unsampled, "").unwrap().is_sampled());
        assert_eq!(
            TraceContext::new(1, 2, true).unwrap().to_string(),
            format!("00-{:032x}-{:016x}-01", 1, 2)
        );
    }

    #[test]
    fn flags_that_are_not_known_are_not_passed_on() {
        for (flags, kept) in [("00", 0), ("01", 1), ("02", 2), ("03", 3), ("ff", 3), ("fe", 2), ("80", 0)] {
            let context = TraceContext::parse(&format!("{}{flags}", &PARENT[..53]), "").unwrap();
            assert_eq!(context.flags(), kept, "{flags}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_written_as_this_one() {
        for later in [
            PARENT.replacen("00-", "cc-", 1),
            PARENT.replacen("00-", "01-", 1) + "-what-comes-after",
            PARENT.replacen("00-", "fe-", 1) + "-",
        ] {
            assert_eq!(TraceContext::parse(&later, "").unwrap().to_string(), PARENT, "{later}");
        }
        for wrong in [PARENT.replacen("00-", "cc-", 1) + ".what", PARENT.replacen("00-", "cc-", 1) + "0"] {
            assert_eq!(TraceContext::parse(&wrong, ""), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_malformed_is_no_context() {
        let zero_trace = PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = PARENT.replace("00f067aa0ba902b7", &"0".repeat(16));
        for wrong in [
            "",
            "00",
            &PARENT[..54],
            &format!("{PARENT}-"),
            &format!("{PARENT}-01"),
            &format!(" {PARENT}"),
            &PARENT.replacen("00-", "ff-", 1),
            &PARENT.replacen("00-", "0g-", 1),
            &PARENT.replacen("00-", "0F-", 1),
            &PARENT.to_uppercase(),
            &PARENT.replace("4bf9", "4Bf9"),
            &PARENT.replace("4bf9", "4bf-"),
            &PARENT.replace('-', "_"),
            &PARENT.replace("-01", "-0x"),
            &PARENT.replace("-01", "01-"),
            &PARENT.replace("4bf9", "4b\u{e9}"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(TraceContext::parse(wrong, ""), None, "{wrong:?}");
        }
        assert_eq!(TraceContext::new(0, 1, true), None);
        assert_eq!(TraceContext::new(1, 0, true), None);
    }

    #[test]
    fn a_state_that_is_malformed_or_too_long_is_left_out_and_the_parent_is_kept() {
        let kept = |state: &str| !TraceContext::parse(PARENT, state).unwrap().state().is_empty();
        let members = |count: usize| (0..count).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        let long_key = "k".repeat(256);
        for right in [
            "a=b",
            "1a-_*/@=b c",
            "fw529a3039@dt=FfGfNiwO",
            "a=b,,c=d",
            " a=b\t,\tc=d ",
            &members(32),
            &format!("{long_key}=v"),
            &format!("a={}", "v".repeat(256)),
        ] {
            assert!(kept(right), "{right}");
        }
        for wrong in [
            "a",
            "=b",
            "a=",
            "A=b",
            "_a=b",
            "a b=c",
            "a=b=c",
            "a=b\u{e9}",
            "a=b\u{7f}",
            "a=b\nc",
            "a=1,a=2",
            &members(33),
            &format!("{long_key}k=v"),
            &format!("a={}", "v".repeat(257)),
            &format!("a={},b={},c=d", "v".repeat(256), "v".repeat(250)),
        ] {
            assert!(!kept(wrong), "{wrong}");
        }
        let full = format!("a={},b={}", "v".repeat(256), "v".repeat(251));
        assert_eq!(full.len(), limits::TRACESTATE_BYTES);
        assert!(kept(&full));
    }
}
