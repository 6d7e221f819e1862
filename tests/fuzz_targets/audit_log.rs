//! A state directory that was written well, and then damaged.

use std::sync::Arc;

use preclaim::audit::{Appended, Link};
use preclaim::store::sim::SimDisk;
use preclaim::store::{
    Archive, Begin, Disk, Durability, Item, Log, OpenError, Options, Position, Read, Rejection, UpkeepBy,
    Upto,
};

use super::script::Script;

const ID: u64 = 0x1d;
const SEGMENT_BYTES: u64 = 4096;

/// Records are written, and the files damaged. What is read then are the records that were written, from
/// the first on without a gap; all of them, where no more than one bit was flipped; and a log that is
/// gone on with holds what was read, and what is added.
pub(crate) fn audit_log(data: &[u8]) {
    let mut script = Script::new(data);
    let disk = SimDisk::new(1);
    let compress = script.is_so();
    let written = write(&mut script, &disk, compress);
    let flips_alone = damage(&mut script, &disk);
    let Ok((_, read)) = read(&disk) else {
        // Whoever opens it to go on is told the same, and nothing was changed.
        assert!(open(&disk, compress, Begin::GoOn).is_err());
        walk(&disk, &written);
        return;
    };
    assert!(written.starts_with(&read), "what is read was written");
    assert!(flips_alone != Some(1) || read == written, "a flipped bit is not taken for a torn tail");
    walk(&disk, &written);
    if let Ok(mut log) = open(&disk, compress, Begin::GoOn) {
        assert_eq!(log.append(b"added"), Appended::Committed);
        drop(log);
        let (_, again) = self::read(&disk).expect("it was gone on with");
        assert_eq!(again.split_last(), Some((&b"added".to_vec(), &read[..])));
    }
}

fn open(disk: &SimDisk, compress: bool, begin: Begin) -> Result<Log, OpenError> {
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        upkeep: UpkeepBy::Caller,
        durability: Durability::Slot,
        compress,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(disk, options, begin, &mut |_| Ok(())).map(|(log, _)| log)
}

fn write(script: &mut Script<'_>, disk: &SimDisk, compress: bool) -> Vec<Vec<u8>> {
    let mut log = open(disk, compress, Begin::New(ID)).expect("it begins");
    let mut written = Vec::new();
    for _ in 0..script.below(16) {
        let length = 16 * usize::from(script.byte());
        let fill = script.byte();
        let body: Vec<u8> = (0..length).map(|at| fill.wrapping_mul((at % 7) as u8)).collect();
        assert_eq!(log.append(&body), Appended::Committed);
        written.push(body);
        if script.below(8) == 7 {
            snapshot(disk);
        }
    }
    written
}

/// A snapshot of all that is closed: its chunks are the records.
fn snapshot(disk: &SimDisk) {
    let archive = Archive::open(Arc::new(disk.clone())).expect("it is there");
    let closed = archive.contents().expect("it can be listed").segments.len().saturating_sub(2) as u64;
    if closed == 0 {
        return;
    }
    let mut bodies = Vec::new();
    let Ok(read) = archive.read(Upto::Closed(closed), &mut |item| take(&mut bodies, item)) else { return };
    if read.base < closed {
        let position = Position { segment: closed, last: read.last };
        let write = archive.write_snapshot(position, read.base, |writer| {
            bodies.iter().try_for_each(|body: &Vec<u8>| writer.chunk(body))
        });
        write.expect("the disk is well");
    }
}

fn take(bodies: &mut Vec<Vec<u8>>, item: Item<'_>) -> Result<(), Rejection> {
    match item {
        Item::Start(_) => bodies.clear(),
        Item::Chunk(body) => bodies.push(body.to_vec()),
        Item::Record(_, entry) => {
            bodies.push(entry.body.to_vec());
            assert_eq!(entry.stamp.seq, bodies.len() as u64, "a record is left out");
        }
    }
    Ok(())
}

fn read(disk: &SimDisk) -> Result<(Read, Vec<Vec<u8>>), OpenError> {
    let archive = Archive::open(Arc::new(disk.clone()))?;
    let mut bodies = Vec::new();
    let read = archive.read(Upto::End, &mut |item| take(&mut bodies, item))?;
    Ok((read, bodies))
}

/// Without the snapshots, as far as that goes, each record is one that was written.
fn walk(disk: &SimDisk, written: &[Vec<u8>]) {
    let Ok(archive) = Archive::open(Arc::new(disk.clone())) else { return };
    let mut count = 0;
    let _ = archive.walk(1, Some(Link::START)).read_on(&mut |found| {
        assert_eq!(written.get(count).map(|body| &body[..]), Some(found.entry.body));
        count += 1;
        Ok(())
    });
    let _ = archive.read_all(&mut |_| Ok(()));
}

/// Damages files; how many bits were flipped, where nothing else was done.
fn damage(script: &mut Script<'_>, disk: &SimDisk) -> Option<usize> {
    let mut flips = Some(0);
    while !script.is_over() {
        let mut files = Disk::list(disk).expect("the disk is well");
        files.retain(|file| file.name != "lock");
        if files.is_empty() {
            return None;
        }
        let name = files[usize::from(script.byte()) % files.len()].name.clone();
        let mut bytes = disk.content(&name).unwrap_or_default();
        let at = if bytes.is_empty() { 0 } else { (script.number() as usize).wrapping_mul(7) % bytes.len() };
        let how = script.below(8);
        flips = flips.filter(|_| how < 3).map(|flips| flips + 1);
        match how {
            0..3 if !bytes.is_empty() => bytes[at] ^= 1 << script.below(8),
            0..3 => {}
            3 => bytes.truncate(at),
            4 => {
                let count = 64 * usize::from(script.byte());
                bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = 0);
            }
            5 => {
                let piece = script.short_piece();
                bytes.iter_mut().skip(at).zip(piece).for_each(|(byte, new)| *byte = *new);
            }
            6 => bytes.extend_from_slice(script.short_piece()),
            _ => {
                let other = &files[usize::from(script.byte()) % files.len()].name;
                bytes = disk.content(other).unwrap_or_default();
            }
        }
        disk.plant(&name, &bytes);
    }
    flips
}
