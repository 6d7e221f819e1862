//! Segments whole, cut off, flipped and torn, read by the scanner and by a twin that is slow and obvious.

use proptest::prelude::*;

use super::*;

const STATE: u64 = 0x5eed;

/// A segment in memory, and where each record's frame starts.
#[derive(Clone, Debug)]
struct Written {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    /// Where the last frame ends.
    end: usize,
}

/// When the records of a segment were synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    /// Each before the next one.
    Each,
    /// Those before this index in time for it, and none after.
    Before(usize),
}

fn written(bodies: &[Vec<u8>], synced: Synced, spare: usize) -> Written {
    let header = SegmentHeader { state_id: STATE, number: 1, chain: ChainHash::START, made: 0 };
    let (mut bytes, mut starts, mut chain) = (header.to_bytes().to_vec(), Vec::new(), ChainHash::START);
    for (index, body) in bodies.iter().enumerate() {
        starts.push(bytes.len());
        let synced = match synced {
            Synced::Each => index,
            Synced::Before(first) => index.min(first),
        };
        let stamp = Stamp { seq: index as u64 + 1, synced: synced as u64 };
        chain = write_record(&chain, stamp, body, &mut bytes).unwrap();
    }
    let end = bytes.len();
    bytes.resize(end + spare, 0);
    Written { bytes, starts, end }
}

fn expected(place: Place) -> Expected {
    Expected { state_id: STATE, number: 1, after: Some(Link::START), place }
}

/// How many records are there, and the end.
fn scan(bytes: &[u8], place: Place) -> (usize, End) {
    let mut scanner = Scanner::new(bytes, expected(place));
    let mut count = 0;
    loop {
        match scanner.step() {
            Ok(Step::Entry(entry)) => {
                count += 1;
                assert_eq!(entry.stamp.seq, count as u64);
            }
            Ok(Step::End(end)) => return (count, end),
            Err(never) => match never {},
        }
    }
}

/// The same by brute force: every frame anew, every bit flipped, every offset tried.
fn twin(bytes: &[u8]) -> (usize, End) {
    let header = SegmentHeader { state_id: STATE, number: 1, chain: ChainHash::START, made: 0 }.to_bytes();
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let until = last_byte(bytes) as u64;
    let damaged = |offset: usize| End::Damaged(Damage { offset: offset as u64, what: What::Checksum });
    if zero(bytes) {
        return (0, End::NotBegun);
    }
    if bytes.len() < 64 || zero(&bytes[..64]) {
        let is_start =
            zero(&bytes[..bytes.len().min(64)]) || bytes.iter().zip(b"PRECLAIM").all(|(a, b)| a == b);
        let is_torn = is_start && !has_later(bytes, 1);
        return (0, if is_torn { End::Torn { offset: 0, until } } else { damaged(0) });
    }
    if bytes[..64] != header {
        return (0, damaged(0));
    }
    let (mut at, mut chain, mut count) = (64, ChainHash::START, 0);
    while let Some((prev, content)) = frame_at(&bytes[at..]) {
        if prev != *chain.as_bytes() || content[..8] != (count as u64 + 1).to_le_bytes() {
            return (count, damaged(at));
        }
        chain = chain.then(content);
        at += 40 + content.len();
        count += 1;
    }
    let rest = &bytes[at..];
    if zero(rest) {
        return (count, End::Clean { offset: at as u64 });
    }
    let is_damage = has_later(rest, count as u64 + 1) || is_flip(bytes, at) || !has_lost_sector(bytes, at);
    (count, if is_damage { damaged(at) } else { End::Torn { offset: at as u64, until } })
}

fn last_byte(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

fn frame_at(bytes: &[u8]) -> Option<([u8; 32], &[u8])> {
    let length = length_at(bytes).filter(|length| *length >= 16)?;
    let content = bytes.get(40..40 + length)?;
    let mut checked = bytes[..4].to_vec();
    checked.extend_from_slice(&bytes[8..40 + length]);
    let crc = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
    (crc32fast::hash(&checked) == crc).then(|| (bytes[8..40].try_into().unwrap(), content))
}

fn length_at(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().unwrap()) as usize;
    (length <= crate::limits::RECORD_BYTES + 16).then_some(length)
}

fn has_later(rest: &[u8], next: u64) -> bool {
    (1..rest.len()).any(|at| {
        frame_at(&rest[at..]).is_some_and(|(_, content)| {
            let number = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
            number(0) > next && number(8) >= next && number(8) < number(0)
        })
    })
}

/// Whether all of what stands between `from` and `to` in the sector of byte `at` is zero.
fn is_share_zero(bytes: &[u8], from: usize, to: usize, at: usize) -> bool {
    let sector = at / 512 * 512;
    bytes[sector.max(from)..(sector + 512).min(to)].iter().all(|byte| *byte == 0)
}

fn is_flip(bytes: &[u8], start: usize) -> bool {
    let mut flipped = bytes.to_vec();
    (start..bytes.len()).any(|at| {
        (0..8).any(|bit| {
            flipped[at] ^= 1 << bit;
            let end = frame_at(&flipped[start..]).map(|(_, content)| start + 40 + content.len());
            flipped[at] ^= 1 << bit;
            end.is_some_and(|end| at < end && !is_share_zero(bytes, start, end, at))
        })
    })
}

fn has_lost_sector(bytes: &[u8], start: usize) -> bool {
    let rest = &bytes[start..];
    let length = length_at(rest).filter(|length| *length >= 16);
    match length {
        _ if rest.len() < 40 => true,
        Some(length) if 40 + length > rest.len() => true,
        Some(length) => {
            let end = start + 40 + length;
            (start..end).any(|at| is_share_zero(bytes, start, end, at))
        }
        None => (start..start + 4).any(|at| is_share_zero(bytes, start, bytes.len(), at)),
    }
}

/// The same end, whatever words it has for damage.
fn plain((count, end): (usize, End)) -> (usize, End) {
    let end = match end {
        End::Damaged(damage) => End::Damaged(Damage { what: What::Checksum, ..damage }),
        end => end,
    };
    (count, end)
}

fn bodies() -> Vec<Vec<u8>> {
    let dense = |length: u8| (1..=length).map(|at| at.wrapping_mul(31) | 1).collect::<Vec<u8>>();
    vec![dense(200), Vec::new(), dense(255), [dense(90), vec![0; 700], dense(3)].concat(), dense(250)]
}

#[test]
fn a_whole_segment_is_read_to_its_end() {
    for spare in [0, 3, 700] {
        let segment = written(&bodies(), Synced::Each, spare);
        for place in [Place::Last, Place::Closed] {
            let offset = segment.end as u64;
            assert_eq!(scan(&segment.bytes, place), (5, End::Clean { offset }));
        }
    }
}

#[test]
fn a_segment_cut_off_anywhere_keeps_the_records_before_the_cut() {
    let segment = written(&bodies(), Synced::Each, 100);
    for cut in 1..segment.bytes.len() {
        let whole = segment.starts.iter().skip(1).chain([&segment.end]).filter(|end| **end <= cut).count();
        let (count, end) = scan(&segment.bytes[..cut], Place::Last);
        assert_eq!(count, whole, "cut at {cut}");
        let offset = segment.starts.get(whole).copied().unwrap_or(segment.end);
        let offset = if cut < 64 { 0 } else { offset } as u64;
        let is_clean = cut as u64 == offset || offset == segment.end as u64;
        match end {
            End::Clean { offset: found } => assert!(is_clean && found == offset, "cut at {cut}"),
            End::Torn { offset: found, until } => {
                assert!(!is_clean && found == offset && until <= cut as u64, "cut at {cut}");
            }
            end => panic!("cut at {cut}: {end:?}"),
        }
    }
}

#[test]
fn every_flipped_bit_in_what_was_written_is_damage_at_its_frame() {
    for (place, synced) in
        [(Place::Last, Synced::Each), (Place::Last, Synced::Before(0)), (Place::Closed, Synced::Each)]
    {
        let segment = written(&bodies(), synced, 200);
        let mut bytes = segment.bytes.clone();
        for bit in 0..segment.end * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let frame = segment.starts.iter().rev().find(|start| **start <= bit / 8).copied().unwrap_or(0);
            match scan(&bytes, place) {
                (_, End::Damaged(damage)) => assert_eq!(damage.offset, frame as u64, "bit {bit}"),
                found => panic!("bit {bit}, {place:?}: {found:?}"),
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_record_that_follows_is_seen_where_it_ends_in_zeros() {
    let segment = written(&[vec![], vec![0; 849], vec![]], Synced::Each, 0);
    let mut bytes = segment.bytes.clone();
    bytes[segment.starts[1] + 4] ^= 0x55;
    let offset = segment.starts[1] as u64;
    assert_eq!(scan(&bytes, Place::Last), (1, End::Damaged(Damage { offset, what: What::Checksum })));
}

#[test]
fn a_bit_flipped_after_the_end_takes_no_record_away() {
    let segment = written(&bodies(), Synced::Each, 600);
    for bit in segment.end * 8..segment.bytes.len() * 8 {
        let mut bytes = segment.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (count, end) = scan(&bytes, Place::Last);
        assert_eq!(count, 5);
        assert!(!matches!(end, End::Clean { .. }), "bit {bit} goes unseen");
        assert!(matches!(scan(&bytes, Place::Closed).1, End::Damaged(_)), "bit {bit} goes unseen");
    }
}

#[test]
fn every_way_to_lose_sectors_of_the_last_record_is_a_torn_tail() {
    let bodies = bodies();
    let segment = written(&bodies[..4], Synced::Each, 300);
    let (start, end) = (segment.starts[3], segment.end);
    let sectors: Vec<usize> = (start / 512..=(end - 1) / 512).collect();
    for lost in 1_u32..1 << sectors.len() {
        let mut bytes = segment.bytes.clone();
        for (index, sector) in sectors.iter().enumerate() {
            if lost >> index & 1 == 1 {
                bytes[(sector * 512).max(start)..(sector * 512 + 512).min(end)].fill(0);
            }
        }
        let offset = start as u64;
        match scan(&bytes, Place::Last) {
            (4, End::Clean { .. }) => assert_eq!(bytes, segment.bytes),
            (3, End::Clean { offset: found } | End::Torn { offset: found, .. }) => assert_eq!(found, offset),
            found => panic!("lost {lost:b}: {found:?}"),
        }
    }
}

#[test]
fn a_segment_of_another_state_number_chain_or_version_is_told_apart() {
    let header = SegmentHeader { state_id: STATE, number: 1, chain: ChainHash::START, made: 0 };
    let what = |bytes: &[u8]| match scan(bytes, Place::Last) {
        (0, End::Damaged(Damage { offset: 0, what })) => what,
        found => panic!("{found:?}"),
    };
    let other = ChainHash::START.then(b"x");
    assert_eq!(what(&SegmentHeader { state_id: 1, ..header }.to_bytes()), What::OtherState(1));
    assert_eq!(what(&SegmentHeader { number: 2, ..header }.to_bytes()), What::OtherNumber(2));
    assert_eq!(what(&SegmentHeader { chain: other, ..header }.to_bytes()), What::HeaderChain);
    let mut newer = header.to_bytes();
    newer[8..10].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    newer[12..16].fill(0);
    let crc = crc32fast::hash(&newer);
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(what(&newer), What::Newer(FORMAT_VERSION + 1));
    assert_eq!(
        what(b"some other file, which has more bytes than a header, all of them text"),
        What::NoSegment
    );
}

#[test]
fn a_claimed_length_takes_no_memory_that_the_bytes_do_not() {
    struct Endless(usize);
    impl Source for Endless {
        type Error = ();
        fn read(&mut self, into: &mut [u8]) -> Result<usize, ()> {
            assert!(into.len() <= crate::limits::AUDIT_READ_CHUNK, "asked for {} bytes at once", into.len());
            self.0 = self.0.checked_sub(1).ok_or(())?;
            into.fill(0xff);
            into[..4].copy_from_slice(&(crate::limits::RECORD_BYTES as u32).to_le_bytes());
            Ok(into.len())
        }
    }
    let mut reader = FrameReader::new(Endless(3), ChainHash::START);
    assert_eq!(reader.next_frame(), Err(()));
}

#[test]
fn frames_in_a_row_are_read_back_and_a_break_in_the_chain_is_found() {
    let mut bytes = Vec::new();
    let first = write_frame(&ChainHash::START, &[b"a", b"b"], &mut bytes).unwrap();
    let second = bytes.len();
    write_frame(&first, &[b"c"], &mut bytes).unwrap();
    assert_eq!(write_frame(&first, &[b""], &mut bytes), None);
    let mut reader = FrameReader::new(&bytes[..], ChainHash::START);
    assert_eq!(reader.next_frame(), Ok(Framed::Content(b"ab")));
    assert_eq!(reader.next_frame(), Ok(Framed::Content(b"c")));
    assert_eq!(reader.next_frame(), Ok(Framed::End));
    assert_eq!(FrameReader::new(&bytes[second..], ChainHash::START).next_frame(), Ok(Framed::Broken));
    for cut in (1..bytes.len()).filter(|cut| *cut != second) {
        let mut reader = FrameReader::new(&bytes[..cut], ChainHash::START);
        let found = std::iter::from_fn(|| match reader.next_frame() {
            Ok(Framed::Content(_)) => Some(()),
            end => {
                assert_eq!(end, Ok(Framed::Broken), "cut at {cut}");
                None
            }
        });
        assert_eq!(found.count(), usize::from(cut > second));
    }
}

/// What happens to a segment.
#[derive(Clone, Debug)]
enum Fault {
    Cut(prop::sample::Index),
    Flip(prop::sample::Index),
    Garbage(prop::sample::Index, Vec<u8>),
    Zeros(prop::sample::Index, usize),
    Lost(u64),
}

fn apply(fault: &Fault, segment: &mut Written, unsynced: usize) {
    let length = segment.bytes.len();
    if length == 0 {
        return;
    }
    match fault {
        Fault::Cut(at) => segment.bytes.truncate(at.index(length)),
        Fault::Flip(at) => {
            let bit = at.index(length * 8);
            segment.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        Fault::Garbage(at, garbage) => {
            let at = at.index(length);
            segment.bytes[at..].iter_mut().zip(garbage).for_each(|(byte, new)| *byte = *new);
        }
        Fault::Zeros(at, count) => {
            let at = at.index(length);
            segment.bytes[at..].iter_mut().take(*count).for_each(|byte| *byte = 0);
        }
        Fault::Lost(sectors) => {
            for (at, byte) in segment.bytes.iter_mut().enumerate().skip(unsynced) {
                *byte *= u8::from(sectors >> (at / 512 % 64) & 1 == 0);
            }
        }
    }
}

fn some_body() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        (0_usize..900).prop_map(|count| vec![0; count]),
        (0_usize..8).prop_map(|bit| vec![1 << bit]),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

fn some_fault() -> impl Strategy<Value = Fault> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Fault::Cut),
        at().prop_map(Fault::Flip),
        (at(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Fault::Garbage(at, bytes)),
        (at(), 1_usize..1200).prop_map(|(at, count)| Fault::Zeros(at, count)),
        any::<u64>().prop_map(Fault::Lost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_scanner_and_its_twin_agree_on_every_fault(
        bodies in prop::collection::vec(some_body(), 0..6),
        first_unsynced in prop::option::of(0_usize..6),
        spare in 0_usize..1500,
        faults in prop::collection::vec(some_fault(), 0..3),
    ) {
        let synced = first_unsynced.map_or(Synced::Each, Synced::Before);
        let mut segment = written(&bodies, synced, spare);
        let unsynced = first_unsynced.and_then(|first| segment.starts.get(first)).copied();
        let unsynced = unsynced.or(segment.starts.last().copied()).unwrap_or(0);
        for fault in &faults {
            apply(fault, &mut segment, unsynced);
        }
        prop_assert_eq!(plain(scan(&segment.bytes, Place::Last)), plain(twin(&segment.bytes)));
    }

    #[test]
    fn what_was_not_synced_may_be_lost_in_any_sectors_and_the_rest_stays(
        bodies in prop::collection::vec(some_body(), 1..6),
        first in 0_usize..6,
        lost in any::<u64>(),
    ) {
        let before = written(&bodies, Synced::Before(first), 900);
        let Some(&unsynced) = before.starts.get(first) else { return Ok(()) };
        let mut after = before.clone();
        apply(&Fault::Lost(lost), &mut after, unsynced);
        let (count, end) = scan(&after.bytes, Place::Last);
        let same = before.bytes.iter().zip(&after.bytes).take_while(|(a, b)| a == b).count();
        let kept = before.starts.iter().skip(1).chain([&before.end]).filter(|end| **end <= same).count();
        prop_assert_eq!(count, kept);
        prop_assert!(!matches!(end, End::Damaged(_)), "{:?}", end);
    }
}
