//! Traces: a configuration up to the first zero byte, then the lines.

use preclaim::audit::{RULES_VERSION, Record, StoredInput};
use preclaim::config::Config;
use preclaim::resolver::invariants::InvariantCheck;
use preclaim::resolver::{Input, Resolver, Rules, SlotBatch, SlotOutcome};
use preclaim::session::coordinator::SessionNotes;
use preclaim::trace::{TraceReader, raw_record, read_record, resolve, write_decision, write_input};
use preclaim::types::Slot;

/// Slots that are decided of one trace: more come of long waits, and show nothing new.
const SLOTS: usize = 1000;

/// A trace that is read is spelled again as the same inputs; every slot of it keeps the core's invariants;
/// what it decides, spelled as one record, is read back as the same; and it is decided as `preclaim resolve` decides it.
/// What is no configuration is held against a record's reader.
pub(crate) fn trace(data: &[u8]) {
    let (config, lines) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (&data[..0], data),
    };
    let Ok(config) = std::str::from_utf8(config) else { return };
    let Ok(config) = Config::parse("config", config) else {
        let _ = read_record(config);
        return;
    };
    let (inputs, is_whole) = read(&config, lines);
    let length = config.rules.length;
    let mut run = Run::new(config.rules.clone());
    let mut open: Vec<Input> = Vec::new();
    for input in inputs {
        let slot = Slot::of(input.at(), length);
        if open.first().is_some_and(|first| Slot::of(first.at(), length) != slot) {
            run.close(std::mem::take(&mut open));
            run.pass(|_, due| due < slot);
        }
        open.push(input);
    }
    run.close(open);
    run.pass(|resolver, _| resolver.has_undecided());
    if is_whole && run.decided < SLOTS {
        let mut out = Vec::new();
        resolve(config, None, lines, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(run.out).unwrap());
    }
}

/// The inputs up to the first line that is wrong, and whether there is none.
fn read(config: &Config, lines: &[u8]) -> (Vec<Input>, bool) {
    let (mut reader, mut again) = (TraceReader::new(config.clone()), TraceReader::new(config.clone()));
    let mut inputs = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        match reader.read(line) {
            Ok(None) => {}
            Ok(Some(input)) => {
                spelled(&mut again, &input);
                inputs.push(input);
            }
            Err(error) => {
                let shown = error.to_string();
                assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
                return (inputs, false);
            }
        }
    }
    (inputs, true)
}

fn spelled(again: &mut TraceReader, input: &Input) {
    let (stored, mut line) = (StoredInput::from(input), Vec::new());
    write_input(&mut line, &stored).unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    let read = again.read(line).unwrap_or_else(|error| panic!("{error}")).expect("it is no empty line");
    assert_eq!(StoredInput::from(&read), stored, "{}", String::from_utf8_lossy(line));
}

struct Run {
    resolver: Resolver,
    check: InvariantCheck,
    out: Vec<u8>,
    last: Option<Slot>,
    decided: usize,
}

impl Run {
    fn new(rules: Rules) -> Self {
        let (resolver, check) = (Resolver::new(rules), InvariantCheck::default());
        Run { resolver, check, out: Vec::new(), last: None, decided: 0 }
    }

    fn close(&mut self, inputs: Vec<Input>) {
        let length = self.resolver.rules().length;
        let Some(first) = inputs.first() else { return };
        let batch = SlotBatch::new(Slot::of(first.at(), length), length, inputs);
        self.decide(&batch.expect("the reader lets no time go back"));
    }

    fn pass(&mut self, more: impl Fn(&Resolver, Slot) -> bool) {
        let length = self.resolver.rules().length;
        while let Some(due) = self.resolver.next_due() {
            let can_be_written =
                due.number().checked_add(1).is_some_and(|next| next.checked_mul(length.as_us()).is_some());
            let rises = self.last.is_none_or(|last| due > last);
            if !can_be_written || !rises || self.decided >= SLOTS || !more(&self.resolver, due) {
                break;
            }
            self.decide(&SlotBatch::empty(due));
        }
    }

    fn decide(&mut self, batch: &SlotBatch) {
        // Where the slots between were given up, nothing that follows can be held against anything.
        if self.decided >= SLOTS {
            return;
        }
        self.decided += 1;
        self.last = Some(batch.slot());
        self.check.before_slot(&self.resolver, batch);
        let outcome = self.resolver.resolve(batch);
        self.check.after_slot(&self.resolver, &outcome).unwrap_or_else(|breach| panic!("{breach}"));
        told(&outcome);
        for decision in &outcome.decisions {
            write_decision(&mut self.out, outcome.slot, outcome.at, decision).unwrap();
        }
    }
}

fn told(outcome: &SlotOutcome) {
    let record = Record {
        slot: outcome.slot,
        at: outcome.at,
        rules_version: RULES_VERSION,
        config_hash: [0; 32],
        inputs: Vec::new(),
        decisions: outcome.decisions.clone(),
        ranks: outcome.ranks.clone(),
        digest: Default::default(),
        notes: SessionNotes::default(),
    };
    let spelled = raw_record(&record).unwrap();
    assert_eq!(read_record(spelled.get()), Ok(record), "{spelled}");
}
