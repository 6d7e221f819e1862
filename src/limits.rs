//! Every bound of the decision core and the protocol, each with its reason, and the relations that
//! must hold between them. A limit that an operator may change lives in the configuration instead.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod reached;

use std::ops::RangeInclusive;

pub use reached::{Limit, Reached};

use crate::types::Micros;

/// Bytes of an agent's name: room for a certificate's URI.
pub const AGENT_BYTES: usize = 128;
/// Segments of a path: a claim looks at each ancestor, so its cost grows with this.
pub const PATH_SEGMENTS: usize = 16;
/// Bytes of one path segment.
pub const SEGMENT_BYTES: usize = 64;
/// Bytes of a whole path.
pub const PATH_BYTES: usize = 256;
/// Claims of one intent: placement looks at all of them at each start it tries.
pub const CLAIMS: usize = 64;
/// Readings that one intent may rest on.
pub const EXPECTS: usize = 16;
/// The highest class.
pub const CLASS_MAX: u8 = 7;
/// Corners of a polygon, at least and at most: exact intersection costs their product.
pub const CORNERS_MIN: usize = 3;
/// See [`CORNERS_MIN`].
pub const CORNERS_MAX: usize = 16;
/// The greatest coordinate, in metres either way: products of four fit exact integers of 256 bits.
pub const COORDINATE_M: f64 = 1e8;
/// How far a corner may lie inside the hull of its polygon and still count as on it, in micrometres:
/// what rounding two neighbours and itself to whole micrometres can do to a straight line.
pub const HULL_SLACK_UM: i64 = 2;
/// Blockers told with one conflict: enough to act on, and it bounds the answer.
pub const BLOCKERS: usize = 8;
/// Bytes of an intent's note for people.
pub const NOTE_BYTES: usize = 128;
/// Bytes of the reason an operator gives for a release.
pub const REASON_BYTES: usize = 256;
/// Ended ids remembered over all agents, beside the time they are kept: past it the oldest goes.
pub const ENDED_IDS: usize = 1 << 20;
/// Paths and frames whose latest ended windows are remembered; past it the oldest end is forgotten,
/// and a reading from before it is stale.
pub const ENDED_TARGETS: usize = 1 << 20;
/// Ended grants remembered by agent for the `fair` model; past it the oldest goes.
pub const ENDED_GRANTS_BY_AGENT: usize = 4096;
/// The shortest slot: below it the timer's own noise is the slot.
pub const SLOT_MIN: Micros = Micros::from_us(100);
/// The longest slot.
pub const SLOT_MAX: Micros = Micros::from_secs(1);
/// Agents' inputs that one slot takes in, unless configured otherwise: several times what a slot of 10 ms
/// decides in time, so that it binds only where the work would no longer end. What does not fit is refused as
/// `overloaded`, the lowest class first.
pub const SLOT_INPUTS: usize = 4096;
/// The operator's inputs that one slot takes in beside them, so that agents cannot crowd them out.
pub const SLOT_OPERATOR_INPUTS: usize = 64;
/// Full slots' worth of inputs that wait to be decided where slots run late: bounds their memory.
pub const WAITING_SLOTS: usize = 4;
/// Connections past that number that are still taken in, to be told so and closed.
pub const CONNECTIONS_TO_REFUSE: usize = 64;
/// Handshakes at a time; past it a packet of a new connection is dropped, and comes again.
pub const HANDSHAKES: usize = 1024;
/// Handshakes at a time past which a peer must first prove that its address is its own, unless configured otherwise.
pub const HANDSHAKES_UNPROVEN: usize = 256;
/// How long a connection may read nothing of what waits for it, unless configured otherwise.
pub const SLOW_READER: Micros = Micros::from_secs(10);
/// What may be configured.
pub const SLOW_READER_RANGE: RangeInclusive<Micros> = Micros::from_secs(1)..=Micros::from_secs(3600);
/// How long a connection that is closed may take to read what it was sent last.
pub const CLOSE_LINGER: Micros = Micros::from_ms(400);
/// How long all connections together may take to close when the coordinator stops: with the longest
/// slot, and the time for the socket, it is done within two seconds.
pub const CLOSE_ALL_WITHIN: Micros = Micros::from_ms(500);
/// Bytes that wait to be written to one connection, beside one slot's news, which comes all at once:
/// some thousands of answers. Unless configured otherwise.
pub const OUTBOX_BYTES: usize = 1 << 20;
/// What may be configured: the largest frame and more.
pub const OUTBOX_BYTES_RANGE: RangeInclusive<u64> = 128 << 10..=1 << 30;
/// Bytes of a connection that are sent and not acknowledged, or wait to be sent, inside QUIC.
pub const SEND_WINDOW_BYTES: usize = 256 * 1024;
/// Bytes of one lane that may be under way to the coordinator: a frame of the largest size and more.
pub const LANE_WINDOW_BYTES: usize = 128 * 1024;
/// Bytes of all lanes of a connection together that may be.
pub const CONNECTION_WINDOW_BYTES: usize = 512 * 1024;
/// Bytes of an unfinished frame that each lane may hold; for more it waits its turn.
pub const SHORT_FRAME_BYTES: usize = 4096;
/// Lanes of one connection that may hold more than that at a time.
pub const LONG_FRAMES: usize = 4;
/// The socket's buffers: a burst of all agents within one slot.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// An agent's socket: twice what the coordinator sends of a connection before it is acknowledged, since the kernel
/// counts its own overhead with each datagram.
pub const CLIENT_BUFFER_BYTES: usize = 2 * SEND_WINDOW_BYTES;
/// Messages that one name has taken in within one slot, unless configured otherwise, so that no name takes the slot
/// from others; and as many again that keep up or give back what it has.
pub const SLOT_INPUTS_OF_A_NAME: usize = 1024;
/// Intents of one name in force or undecided, unless configured otherwise: bounds what one agent makes the
/// coordinator remember.
pub const LIVE_OF_A_NAME: usize = 1 << 18;
/// Intents in force or undecided over all names, unless configured otherwise: about a gigabyte.
pub const LIVE: usize = 1 << 21;
/// What may be configured for either.
pub const LIVE_RANGE: RangeInclusive<usize> = 1..=1 << 26;
/// Claims of one name's intents in force or undecided, unless configured otherwise: each is a window that is
/// remembered, and counted at each node of its path.
pub const WINDOWS_OF_A_NAME: usize = 1 << 18;
/// Of these, those on one path and below it, unless configured otherwise: half of [`WINDOWS_ON_A_PATH`], so that no name
/// alone has others refused.
pub const WINDOWS_OF_A_NAME_ON_A_PATH: usize = WINDOWS_ON_A_PATH / 2;
/// Windows that may be in the way of one of several claims, unless configured otherwise. In the worst case a place is
/// looked for from gap to gap among all of them, which takes a quarter of a slot of 10 ms (docs/BENCHMARKS.md).
pub const WINDOWS_ON_A_PATH: usize = 1 << 15;
/// Regions of one frame, unless configured otherwise. Only those near each other are looked at together.
pub const REGIONS_OF_A_FRAME: usize = 1 << 18;
/// What may be configured for these: the claims of one intent at least.
pub const WINDOWS_RANGE: RangeInclusive<usize> = CLAIMS..=1 << 26;
/// Windows among which a slot looks for places for one name's intents, unless configured otherwise: as many as one
/// intent of several claims may be looked for among, so that one name costs a slot no more than one such intent.
pub const SEARCH_OF_A_NAME: usize = WINDOWS_ON_A_PATH;
/// The same over all names, unless configured otherwise.
pub const SEARCH: usize = 4 * SEARCH_OF_A_NAME;
/// So many windows that a single claim reaches over cost as much as one among which several claims are looked for: they
/// are gone through once, for who is told.
pub const SEARCH_OF_ONE: usize = 8;
/// So many regions count as one window there. In one place each costs more than that; but those of one name are mostly
/// spread out, and then next to nothing.
pub const SEARCH_OF_REGIONS: usize = 4;
/// What may be configured for either.
pub const SEARCH_RANGE: RangeInclusive<usize> = CLAIMS..=1 << 30;
/// When to come back where too many intents are in force: some end by themselves meanwhile.
pub const RETRY_WHEN_FULL: Micros = Micros::from_secs(1);
/// Requests of one intent whose fate is still open: a declaration, what was sent again, and revisions
/// that followed each other; past it the oldest is not answered.
pub const WAITERS: usize = 16;
/// Names that have a session, connected or kept, unless configured otherwise.
pub const NAMES: usize = 1 << 16;
/// What may be configured.
pub const NAMES_RANGE: RangeInclusive<usize> = 1..=1 << 24;
/// Sessions of one name at a time, connected or kept, unless configured otherwise.
pub const SESSIONS_OF_A_NAME: usize = 256;
/// What may be configured.
pub const SESSIONS_OF_A_NAME_RANGE: RangeInclusive<usize> = 1..=65_536;
/// Sessions without a connection that are kept, over all names, unless configured otherwise; past it the oldest goes.
pub const SESSIONS_LEFT: usize = 1 << 16;
/// What may be configured.
pub const SESSIONS_LEFT_RANGE: RangeInclusive<usize> = 1..=1 << 24;
/// How long a session is kept without a connection, so that its incarnation may take it up again, unless configured
/// otherwise.
pub const SESSION_KEPT: Micros = Micros::from_secs(600);
/// What may be configured.
pub const SESSION_KEPT_RANGE: RangeInclusive<Micros> = Micros::from_secs(1)..=Micros::from_secs(86_400);
/// Incarnations that a session remembers to have been replaced: of live processes under one name and
/// label, so many cannot take it from each other in turn.
pub const REPLACED_INCARNATIONS: usize = 8;
/// News that is kept for one name while it is not there; past it the oldest goes.
pub const NEWS_OF_A_NAME: usize = 1024;
/// News that is kept over all names: some tens of megabytes.
pub const NEWS_KEPT: usize = 1 << 16;
/// Watches on one connection.
pub const WATCHES_OF_A_CONNECTION: usize = 8;
/// Watches of one name, over all its connections: no name alone has others refused.
pub const WATCHES_OF_A_NAME: usize = 16;
/// Watches over all connections: the slot loop writes each decision to all of them.
pub const WATCHES: usize = 64;
/// Listings of one connection that are on their way at a time; others of it wait, however many lanes they come on.
pub const LISTINGS_OF_A_CONNECTION: usize = 1;
/// Looks at the coordinator's state that wait for the slot loop: each is bounded in itself, and
/// together they must not hold up the next slot.
pub const WAITING_LOOKS: usize = 64;

/// Rules of rights: a message looks at each once, and at each again for each of its claims.
pub const RULES: usize = 256;
/// Bytes of a rule's name: it stands in hints and in the record.
pub const RULE_NAME_BYTES: usize = 64;
/// Refusals by rights that the record keeps within a second: some kilobytes, whoever tries what how often. The
/// others are counted.
pub const FORBIDDEN_KEPT_A_SECOND: usize = 16;
/// Of them, those of one name.
pub const FORBIDDEN_KEPT_OF_A_NAME: usize = 4;
/// Of them, those that wait for the next record.
pub const FORBIDDEN_WAITING: usize = 256;
/// Agents whose allowance is not full: past it, others count with the ordinary priority alone.
pub const PURSES: usize = NAMES;
/// Ended intents of which is remembered what was sent where less counted, for as long as their ids are; past it
/// the oldest goes. Fewer than [`ENDED_IDS`], so that nothing is paid for once that the core decides twice.
pub const BOUNDED_KEPT: usize = 1 << 16;

/// Bytes of one frame on the wire, its length prefix left out: the largest declaration that the
/// contract allows, with its extensions, fits; a reader never needs a larger buffer.
pub const FRAME_BYTES: usize = 64 * 1024;
/// Declarations in one frame: bounds what one message can make the coordinator do.
pub const BATCH: usize = 256;
/// Extensions at the end of one message.
pub const EXTENSIONS: usize = 16;
/// Bytes of one extension's value: room for a bearer token.
pub const EXTENSION_BYTES: usize = 4096;
/// Bytes of all extensions of one message together.
pub const EXTENSIONS_BYTES: usize = 8192;
/// Bytes of a session's label.
pub const LABEL_BYTES: usize = 64;
/// Bytes of a text for people inside an answer (a hint, a reason to drain).
pub const TEXT_BYTES: usize = 256;
/// Bytes of the mark with which a listing is taken up again.
pub const CURSOR_BYTES: usize = 160;
/// Entries of one page of a listing; a page also ends where its frame is full.
pub const LIST_PAGE: usize = 256;
/// Capacities on one page; a page also ends where its extension is full.
pub const CAPACITY_PAGE: usize = 64;
/// Capacities that may be set at run time, over all paths: each record of a slot that sets one has them all.
pub const CAPACITIES_SET: usize = 1024;
/// Changed keys of a configuration that the log and the record name, one by one; of more than that, how many.
pub const RELOAD_KEYS: usize = 32;
/// Bytes of a text about a reload in the record: a changed key, or why it was refused.
pub const RELOAD_TEXT_BYTES: usize = 512;
/// Reloads that wait for a record; there is one within a slot or two.
pub const RELOADS_WAITING: usize = 16;
/// Entries that the slot loop looks at for one page: some tens of microseconds.
pub const LIST_SCAN: usize = 1024;
/// The coordinator tells those who speak over a connection that it does not know, at most so often, that
/// it does not: all agents of one that was killed within seconds, and no flood for a flood.
pub const RESET_EVERY: std::time::Duration = std::time::Duration::from_millis(1);
/// Intents whose standings are asked for at once: looked up by id, between two slots.
pub const STANDINGS: usize = 64;
/// Starts by an agent's own clock that a client remembers of declarations that ended as unknown, so that
/// they can be asked again with the same content: looked through one by one, and rarely any.
pub const UNKNOWN_STARTS: usize = 256;
/// The longest that a drain waits for holders: a day, as far as grants reach ahead unless configured otherwise.
pub const DRAIN_MOST: Micros = Micros::from_secs(24 * 3600);
/// How long a drain waits for holders, unless configured or asked for otherwise: a few usual leases.
pub const DRAIN_WITHIN: Micros = Micros::from_secs(30);
/// The longest that whoever finds no room is told to stay away, and that a request waits which is made again
/// because the coordinator had none.
pub const ASK_AGAIN_MOST: Micros = Micros::from_secs(5);
/// Lanes that one connection may have open: one an intent for a busy agent, with room to spare.
pub const LANES: usize = 256;
/// Requests that a client leaves unanswered at a time, whatever the coordinator would take: bounds its
/// memory.
pub const REQUESTS: usize = 4096;

/// Bytes of a configuration file: a hundred thousand resources, and it is held in memory whole.
pub const CONFIG_BYTES: usize = 16 << 20;
/// Bytes of a priority expression: a formula that people can read at once, and all that follows is
/// bounded by it.
pub const EXPRESSION_BYTES: usize = 1024;
/// Brackets within brackets in a priority expression: the parser's stack grows with each.
pub const EXPRESSION_NESTING: usize = 16;
/// Operators in a priority expression: each may be one more level of the tree, and each score costs
/// at most this many steps.
pub const EXPRESSION_OPERATORS: usize = 128;
/// Stack of the thread that parses an expression. Without optimisation the parser takes 256 KiB for a
/// level of brackets and 16 KiB for an operator; twice that is held ready.
pub const EXPRESSION_STACK: usize = 16 << 20;
/// Bytes of one line of a trace: the largest intent, 64 polygons of 16 corners, needs a tenth of it.
pub const TRACE_LINE_BYTES: usize = 1 << 20;
/// Bytes of trace lines that arrive in one slot: they are in memory together until it is decided.
pub const TRACE_SLOT_BYTES: usize = 256 << 20;

/// Items of one list of a record or a snapshot: more than the busiest slot that may be configured has,
/// and what a flipped bit announces is refused before it is read.
pub const RECORD_ITEMS: usize = 1 << 24;
/// Bytes of a text in a record whose own room bounds it closer: a field's name, a reason, a label.
pub const RECORD_TEXT_BYTES: usize = 1 << 16;
/// The least bytes of the secret that the log's texts are hashed with: as many as 32 random ones take at least, however
/// they are spelled, so that nobody tries all of them.
pub const TEXT_KEY_BYTES: usize = 32;
/// Bytes of a configuration's rules in a record: all that a file of [`CONFIG_BYTES`] may say, each key on
/// a line of its own, and the smallest ratio, six bytes in a file, with all its zeros.
pub const RULES_DOCUMENT_BYTES: usize = 12 * CONFIG_BYTES;

/// The highest token with which a restart may go on: tokens never repeat, and four billion more are
/// years of grants.
pub const NEXT_TOKEN: u64 = u64::MAX - u32::MAX as u64;

/// Tokens that are set aside at once where records are not synced slot by slot: as many are left out
/// after a crash.
pub const TOKENS_RESERVED: u64 = 1 << 20;

/// Bytes of one record's body in the audit log: a full slot of the largest declarations, and the
/// decisions about them. Below the 2^32 - 1 bits within which a checksum places a single flipped bit.
pub const RECORD_BYTES: usize = 384 << 20;
/// Bytes of one chunk of a snapshot: it is in memory whole.
pub const SNAPSHOT_CHUNK_BYTES: usize = 16 << 20;
/// Bytes after which a chunk of a snapshot takes no further item.
pub const SNAPSHOT_CHUNK_MOSTLY: usize = 64 << 10;
/// Bytes of one segment of the audit log, unless configured otherwise: some minutes of a busy day.
pub const AUDIT_SEGMENT_BYTES: u64 = 64 << 20;
/// What may be configured: a page, so that tests turn segments over quickly, to what is still read
/// into memory without care where its tail is judged.
pub const AUDIT_SEGMENT_RANGE: RangeInclusive<u64> = 4096..=1 << 30;
/// After how long a record is on disk at the latest, with `durability = "interval"`.
pub const SYNC_INTERVAL: Micros = Micros::from_ms(50);
/// What may be configured.
pub const SYNC_INTERVAL_RANGE: RangeInclusive<Micros> = Micros::from_ms(1)..=Micros::from_secs(60);
/// Bytes that are written beside the log between two syncs, of snapshots, of segments made ready or
/// compressed: a sync of the log's that falls in between waits for no more than these.
pub const BESIDE_BYTES: usize = 128 * 1024;
/// Bytes that are read from a file of the audit log at once.
pub const AUDIT_READ_CHUNK: usize = 256 * 1024;
/// Looks at the same place of a log in which nothing new has come, before what looks wrong there is
/// believed: a coordinator may just be writing it.
pub const AUDIT_READS_AGAIN: u32 = 4;
/// Records that `audit tail` prints at once: their lines are in memory together.
pub const AUDIT_TAIL_RECORDS: u32 = 100_000;
/// Agents that a comparison of policies tells apart; those beyond are counted together.
pub const AUDIT_AGENTS: usize = 1 << 18;
/// What the story of one intent keeps of inputs and decisions: the first half of it, and the last.
pub const AUDIT_STORY: usize = 4096;
/// Files that a state directory may hold: past it something else writes there.
pub const AUDIT_FILES: usize = 1 << 20;

/// Connections at a time of those who watch by HTTP; past it the one that has been there longest is let go.
pub const WATCHING_CONNECTIONS: usize = 64;
/// Bytes of what one of them sends ahead of a body; nobody needs more to ask how it is.
pub const WATCHING_HEADER_BYTES: usize = 16 << 10;
/// After how long one of them is let go.
pub const WATCHING_TIMEOUT: Micros = Micros::from_secs(10);
/// How long one of them waits for a look at the coordinator's state: it is taken between two slots.
pub const WATCHING_LOOK: Micros = Micros::from_secs(2);
/// How long the slot loop may be at one slot, or past a slot's end, and count as ready: some of the longest
/// slots, and any sync of a disk that is well.
pub const STANDSTILL: Micros = Micros::from_secs(3);
/// The last slots that are kept to be shown.
pub const SLOTS_SHOWN: usize = 256;
/// Paths whose conflicts are counted: past it the less contended half is forgotten.
pub const CONTENDED_PATHS: usize = 1024;
/// Pairs of agents whose conflicts are counted, in the same way.
pub const CONTENDED_PAIRS: usize = 1024;
/// After how long a conflict counts half as much for its path and its pair.
pub const CONTENDED_HALVES: Micros = Micros::from_secs(60);
/// Grants of contended paths whose ends are waited for, to tell how long such a path is held; past it all are
/// forgotten.
pub const HOLDS_FOLLOWED: usize = 1024;
/// Claims of a grant of which one may be of a contended path: a look at each costs the slot loop.
pub const HOLD_CLAIMS: usize = 4;
/// Agents whose last offer is remembered, to count what came of it; past it all are forgotten.
pub const OFFERS_FOLLOWED: usize = 4096;
/// Pages that are told of each slot at a time; each may ask for a look when it opens, or has missed some.
pub const PAGE_STREAMS: usize = 16;
/// How often a page is told what came: often enough to be seen as live, and no more work than drawing it.
pub const PAGE_EVERY: Micros = Micros::from_ms(100);
/// After how long without news a page is told the time all the same.
pub const PAGE_BEAT: Micros = Micros::from_secs(1);
/// Frames that wait for a page to read them; what comes meanwhile waits in the ring that all pages share.
pub const PAGE_FRAMES: usize = 2;
/// Decisions told in one frame: a page reads and draws it well within a frame of its screen.
pub const PAGE_FRAME_NEWS: usize = 128;
/// Decisions of one slot that are kept for pages: copying them is what a page costs the slot loop.
pub const PAGE_SLOT_NEWS: usize = 1024;
/// Claims, of decisions and of who was in the way, that are kept for pages: some tens of megabytes where all
/// are the largest polygons, and some ten seconds of a thousand decisions a second.
pub const PAGE_CLAIMS_KEPT: usize = 1 << 15;
/// Slots that are kept for pages: seconds of the shortest slots.
pub const PAGE_SLOTS_KEPT: usize = 4096;
/// Claims of one intent that a page is told; it is told how many more there are.
pub const PAGE_CLAIMS: usize = 16;
/// How long a page that has missed something waits for its next look at least.
pub const PAGE_LOOK_EVERY: Micros = Micros::from_secs(2);
/// Claims of the part of a log that is opened at once: a browser keeps them all.
pub const VIEW_CLAIMS: usize = 200_000;
/// Claims, of decisions and of who was in the way, that are told of one intent that is asked for: where all are the
/// largest polygons, the answer is shorter than [`WATCHED_BYTES`].
pub const WHY_CLAIMS: usize = 2048;
/// Intents in the way of one that is asked for which are looked up between two slots: some microseconds.
pub const WHY_LOOKED_UP: usize = 16;
/// Entries of one list about claims, and how many there are unless asked otherwise.
pub const CLAIMS_SHOWN: usize = 100;
/// See [`CLAIMS_SHOWN`].
pub const CLAIMS_SHOWN_DEFAULT: usize = 20;
/// A lease that is held for more than this many times what it was declared for counts as overdue.
pub const OVERDUE_TIMES: u64 = 2;
/// Bytes of one answer to a command that watches: all lists at their longest are a fraction of it.
pub const WATCHED_BYTES: usize = 4 << 20;
/// How long a command that watches waits for one answer.
pub const WATCHED_WITHIN: Micros = Micros::from_secs(5);
/// Over how long the figures of health are taken.
pub const HEALTH_OVER: Micros = Micros::from_secs(300);
/// The shortest and the longest time between two looks of a command that watches.
pub const WATCHED_EVERY: RangeInclusive<Micros> = Micros::from_ms(100)..=Micros::from_secs(3600);
/// Looks that are kept to take them from: past it every other one is forgotten.
pub const LOOKS_KEPT: usize = 512;

/// Real-time priorities of the slot loop that may be configured; the connections' threads have the one below.
/// Linux has 1 to 99, of which the highest is for the kernel's own watchdogs.
pub const REALTIME_RANGE: RangeInclusive<u8> = 2..=98;
/// Cores that can be named: as many as the kernel's calls have room for by default.
pub const CORES: usize = 1024;

/// Connections at a time of one address, unless configured otherwise: a quarter of all, since many robots may stand
/// behind one gateway.
pub const CONNECTIONS_PER_ADDRESS: usize = 1024;
/// Bits of an IPv6 address that tell networks apart: whoever has one address of a network has all of it.
pub const ADDRESS_BITS_V6: u32 = 64;
/// Addresses that are counted apart beside as many as there may be connections: those of a few seconds of handshakes
/// at the highest rate by default.
pub const ADDRESSES_BESIDE: usize = 1 << 16;
/// How often at most those are forgotten of which nothing counts any more: going through all takes milliseconds.
pub const ADDRESSES_SWEPT_EVERY: Micros = Micros::from_secs(1);
/// Handshakes a second, unless configured otherwise: some hundred microseconds of processor each, so that a flood of
/// them leaves most of a core. Agents of a coordinator that was started again are all back within seconds.
pub const HANDSHAKES_PER_SECOND: usize = 1000;
/// Of them, those of one address.
pub const HANDSHAKES_PER_SECOND_PER_ADDRESS: usize = 500;
/// What may be configured for either.
pub const HANDSHAKES_PER_SECOND_RANGE: RangeInclusive<usize> = 1..=1_000_000;
/// What may be configured for [`HANDSHAKES_UNPROVEN`]: with 0, every address has to be proved first, which takes a
/// connection one round trip more.
pub const HANDSHAKES_UNPROVEN_RANGE: RangeInclusive<usize> = 0..=HANDSHAKES;
/// Messages a second of one name, unless configured otherwise: a declaration costs some 4 µs, so that who sends as fast
/// as it can takes a tenth of a core, and what others wait for stays within twice its time (benches/hostile.rs).
pub const MESSAGES_PER_SECOND: usize = 25_000;
/// How many messages a page of a listing counts for: it costs some 200 µs.
pub const LIST_WEIGHT: u64 = 32;
/// Names whose rates are kept before those that have left are looked for.
pub const SPEEDS_SWEPT_FROM: usize = 1024;
/// What may be configured: a full batch at least.
pub const MESSAGES_PER_SECOND_RANGE: RangeInclusive<usize> = BATCH..=1_000_000_000;
/// Bytes a second of one name, unless configured otherwise: far more than its messages of the usual size have.
pub const BYTES_PER_SECOND: u64 = 64 << 20;
/// What may be configured: the largest frame at least.
pub const BYTES_PER_SECOND_RANGE: RangeInclusive<u64> = FRAME_BYTES as u64..=1 << 40;
/// Bytes of a `tracestate`, which the standard asks for at least; a longer one is left out.
pub const TRACESTATE_BYTES: usize = 512;
/// Members of a `tracestate`, as the standard has it.
pub const TRACESTATE_MEMBERS: usize = 32;
/// Intents that are followed for traces at a time, from their declaration to the end of their grants: about 40 MB
/// with the longest contexts. The others are decided alike, and have no spans.
pub const TRACES: usize = 1 << 16;
/// Decisions of one slot about such intents that are told on; the others are counted as left out.
pub const TRACED_OF_A_SLOT: usize = 256;
/// Slots, or spans of an agent's, that wait for the thread that makes and sends spans; past it they are left out.
pub const TRACED_WAITING: usize = 512;
/// How often that thread looks for them. The slot loop does not wake it, which would cost the loop its core now and
/// then.
pub const TRACED_EVERY: Micros = Micros::from_ms(40);
/// Events of one span, and its links; those past it are counted in it.
pub const SPAN_EVENTS: usize = 32;
/// Spans that wait to be sent: a few seconds' worth. Past it the latest are left out.
pub const SPANS: usize = 8192;
/// Spans of one request: some hundred kilobytes.
pub const SPANS_AT_ONCE: usize = 512;
/// How long a span waits for others to be sent with.
pub const SPANS_EVERY: Micros = Micros::from_secs(1);
/// How often a request is made before its spans are given up, waiting twice as long each time.
pub const SPANS_TRIES: u32 = 4;
/// How long a request may take, unless configured otherwise.
pub const SPANS_TIMEOUT: Micros = Micros::from_secs(10);
/// What may be configured.
pub const SPANS_TIMEOUT_RANGE: RangeInclusive<Micros> = Micros::from_ms(100)..=Micros::from_secs(60);
/// How long what is left to send may take when the program ends.
pub const SPANS_FLUSH_WITHIN: Micros = Micros::from_secs(2);
/// Bytes of a collector's answer that are read.
pub const SPANS_ANSWER_BYTES: usize = 64 << 10;
/// Characters of a log's field: of a longer one the beginning is written.
pub const LOG_FIELD_CHARACTERS: usize = 2048;
/// Lines that one place of the program writes to the log within [`LOG_LINES_WITHIN`]: no fewer than
/// [`PEER_LINES`], which all come from one place.
pub const LOG_LINES: u64 = 64;
/// See [`LOG_LINES`]. So often it is also told what was left out.
pub const LOG_LINES_WITHIN: Micros = Micros::from_secs(10);
/// Places of the program whose lines are counted apart; there are fewer.
pub const LOG_PLACES: usize = 4096;
/// Targets for which a log's level is set one by one.
pub const LOG_TARGETS: usize = 16;
/// Lines in the log about peers within [`PEER_LINES_WITHIN`]: what people can read.
pub const PEER_LINES: u64 = 64;
/// Of them, those about one address.
pub const PEER_LINES_OF_AN_ADDRESS: u64 = 4;
/// See [`PEER_LINES`]. So often it is also told what was left out.
pub const PEER_LINES_WITHIN: Micros = Micros::from_secs(10);
/// Characters of one such line, of what is said in it.
pub const PEER_LINE_CHARACTERS: usize = 512;
/// Addresses of which is known how many lines were left out; those of others are counted together.
pub const PEER_LINES_ADDRESSES: usize = 1024;

/// Connections at a time, unless configured otherwise: each costs buffers of some tens of kilobytes.
pub const CONNECTIONS: usize = 4096;
/// What may be configured: up to what one UDP socket can tell apart in practice.
pub const CONNECTIONS_RANGE: RangeInclusive<usize> = 1..=1_000_000;
/// What may be configured for [`LANES`]: the first lane carries the hello, the second an intent.
pub const LANES_RANGE: RangeInclusive<usize> = 2..=65_536;
/// Undecided intents of one agent, unless configured otherwise: one agent cannot fill the slot alone.
pub const UNDECIDED_PER_AGENT: usize = 1024;
/// Undecided intents in all, unless configured otherwise: each is tried again in every slot.
pub const UNDECIDED: usize = 65_536;
/// What may be configured for either.
pub const UNDECIDED_RANGE: RangeInclusive<usize> = 1..=10_000_000;
/// What may be configured for [`SLOT_INPUTS`] and [`SLOT_INPUTS_OF_A_NAME`].
pub const SLOT_INPUTS_RANGE: RangeInclusive<usize> = 1..=1_000_000;
/// From a connection's first byte to its hello, unless configured otherwise: some round trips on the
/// slowest link.
pub const HELLO_TIMEOUT: Micros = Micros::from_secs(5);
/// What may be configured.
pub const HELLO_TIMEOUT_RANGE: RangeInclusive<Micros> = Micros::from_ms(100)..=Micros::from_secs(60);
/// Silence after which a connection is let go, unless configured otherwise: several of the client's
/// keep-alives may be lost in a row.
pub const IDLE_TIMEOUT: Micros = Micros::from_secs(30);
/// What may be configured.
pub const IDLE_TIMEOUT_RANGE: RangeInclusive<Micros> = Micros::from_secs(1)..=Micros::from_secs(3600);
/// Addresses that a client tries for one connection: a quarter of a second apart, so many have their turn
/// within the 5 s that a connection may take.
pub const ADDRESSES: usize = 16;
/// How late a timer may ring on a machine that is not busy: tokio's run by whole milliseconds. A holder stops so
/// much before its grant's end.
pub const TIMER_GRAIN: Micros = Micros::from_ms(1);
/// Events that one stream of a client holds before it leaves some out and says so.
pub const EVENTS: usize = 1024;
/// Streams of events that one client keeps.
pub const SUBSCRIBERS: usize = 64;
/// Entries that a client collects for one listing.
pub const LISTED: usize = 10_000;
/// Bytes that are read from a lane at once.
pub const READ_CHUNK: usize = 16 * 1024;
/// Bytes that are gathered before they are written to a lane at once.
pub const WRITE_CHUNK: usize = 64 * 1024;
/// Bytes of a file with certificates, a key, a revocation list or tokens: some thousands of each, and it is held
/// in memory whole.
pub const PEM_BYTES: usize = 1 << 20;
/// Names that are read of one certificate.
pub const CERTIFICATE_NAMES: usize = 256;
/// Certificates that one authority's directory lists, and can revoke; each is a file.
pub const ISSUED: usize = 1 << 16;
/// Tokens that a coordinator knows.
pub const TOKENS: usize = 4096;
/// Bytes of the file with which `preclaim dev` is found: room for a chain of certificates.
pub const DEV_FILE_BYTES: usize = 64 * 1024;

/// Bytes of a key that a guarded store keeps a fence of: any path of the coordinator is one.
pub const FENCE_KEY_BYTES: usize = PATH_BYTES;
/// Keys of which a gate in memory keeps a fence: some ten megabytes.
pub const FENCE_KEYS: usize = 1 << 16;
/// Keys of which a file keeps a fence: it is written as a whole at each new one.
pub const FENCE_FILE_KEYS: usize = 4096;
/// Bytes of that file: the longest line for each key, with two numbers of 20 digits, head and sum.
pub const FENCE_FILE_BYTES: usize = FENCE_FILE_KEYS * (FENCE_KEY_BYTES + 43) + 64;

/// Contenders of a lease that `preclaim hold` tells of, each once.
pub const HOLD_CONTENDERS: usize = 32;
/// How often it looks for what has not ended after it was killed.
pub const HOLD_LOOKS_EVERY: Micros = Micros::from_ms(20);
/// How long it looks: what cannot be killed, as a program of another user, would have it wait for ever.
pub const HOLD_LEFTOVERS: Micros = Micros::from_secs(2);
/// How long before the end of its lease what is left of the command is killed: time to find all of it.
pub const HOLD_MARGIN: Micros = Micros::from_ms(100);
/// How long it waits for the answer to its release, after which its command's end is told all the same.
pub const HOLD_RELEASES_WITHIN: Micros = Micros::from_secs(3);

/// Agents of one bench: it keeps a schedule for each.
pub const BENCH_AGENTS: usize = 1_000_000;
/// Declarations of one measurement: each is kept until the end, half a kilobyte with all that the
/// coordinator remembers of it.
pub const BENCH_DECLARATIONS: usize = 4_000_000;
/// Declarations that are due and not yet written on one connection of a bench; more are not sent, and
/// counted as errors.
pub const BENCH_WAITING: usize = 1 << 16;
/// Threads that a bench has compute beside it.
pub const BENCH_BUSY: usize = 1024;
/// The longest measurement, warm-up and all.
pub const BENCH_LONGEST: Micros = Micros::from_secs(3600);

/// The most that a declaration of the largest legal intent takes: 64 claims, each a polygon of 16
/// corners with heights in a frame of the longest name, 16 readings, note and numbers.
const DECLARATION_BYTES: usize = CLAIMS * (CORNERS_MAX * 24 + PATH_BYTES + 96)
    + EXPECTS * (PATH_BYTES + 16)
    + NOTE_BYTES
    + EXTENSIONS_BYTES
    + EXTENSIONS * 10
    + 256;

const _: () = assert!(DECLARATION_BYTES <= FRAME_BYTES, "the largest legal intent must fit one frame");
const _: () = assert!(EXTENSION_BYTES <= EXTENSIONS_BYTES && EXTENSIONS_BYTES < FRAME_BYTES);
const _: () = assert!(FRAME_BYTES <= u32::MAX as usize, "the length prefix has four bytes");
const _: () = assert!(SLOT_INPUTS_OF_A_NAME < SLOT_INPUTS, "one name must not fill a slot");
const _: () = assert!(BATCH <= SLOT_INPUTS_OF_A_NAME, "a full batch must fit a slot");
const _: () = assert!(LIVE_OF_A_NAME < LIVE && LIVE_OF_A_NAME <= WINDOWS_OF_A_NAME);
const _: () = assert!(CLAIMS <= WINDOWS_OF_A_NAME_ON_A_PATH && CLAIMS <= *SEARCH_RANGE.start());
const _: () = assert!(2 * WINDOWS_OF_A_NAME_ON_A_PATH <= WINDOWS_ON_A_PATH, "no name alone crowds a path");
const _: () = assert!(SEARCH_OF_A_NAME < SEARCH, "no name alone takes all of a slot");
const _: () = assert!(CONNECTIONS_PER_ADDRESS < CONNECTIONS, "no address alone takes all connections");
const _: () = assert!(HANDSHAKES_PER_SECOND_PER_ADDRESS < HANDSHAKES_PER_SECOND);
const _: () = assert!(PEER_LINES_OF_AN_ADDRESS < PEER_LINES);
const _: () = assert!(LOG_LINES >= PEER_LINES && LOG_LINES_WITHIN.as_us() <= PEER_LINES_WITHIN.as_us());
const _: () = assert!(SPANS_AT_ONCE < SPANS);
// As many of the shortest slots as come between two looks have room.
const _: () = assert!(TRACED_EVERY.as_us() / SLOT_MIN.as_us() < TRACED_WAITING as u64);
const _: () = assert!(BOUNDED_KEPT < ENDED_IDS && FORBIDDEN_KEPT_OF_A_NAME < FORBIDDEN_KEPT_A_SECOND);
const _: () = assert!(WATCHES_OF_A_CONNECTION <= WATCHES_OF_A_NAME && WATCHES_OF_A_NAME < WATCHES);
const _: () = assert!(CURSOR_BYTES >= AGENT_BYTES + 9, "a mark names an agent and an id");
const _: () = assert!(CLOSE_LINGER.as_us() < CLOSE_ALL_WITHIN.as_us());
const _: () = assert!(SLOT_MAX.as_us() + CLOSE_ALL_WITHIN.as_us() + CLOSE_LINGER.as_us() < 2_000_000);
const _: () = assert!(LIST_PAGE <= LIST_SCAN && CAPACITY_PAGE <= LIST_SCAN);
const _: () = assert!(PATH_BYTES + 64 <= EXTENSION_BYTES, "one capacity must fit an extension");
const _: () = assert!(PAGE_STREAMS < WATCHING_CONNECTIONS, "pages must leave room for others that watch");
const _: () = assert!(PAGE_SLOT_NEWS < PAGE_CLAIMS_KEPT, "a full slot must fit");
const _: () = assert!(BLOCKERS <= WHY_LOOKED_UP && WHY_CLAIMS <= PAGE_CLAIMS_KEPT);
const _: () = assert!(PAGE_BEAT.as_us() < WATCHING_TIMEOUT.as_us(), "a page that reads is not let go");
const _: () = assert!(CLAIMS_SHOWN_DEFAULT <= CLAIMS_SHOWN && CLAIMS_SHOWN <= LIST_SCAN);
const _: () =
    assert!(WATCHING_LOOK.as_us() < WATCHING_TIMEOUT.as_us() && SLOT_MAX.as_us() < STANDSTILL.as_us());
const _: () = assert!(FRAME_BYTES < LANE_WINDOW_BYTES && LANE_WINDOW_BYTES <= CONNECTION_WINDOW_BYTES);
const _: () = assert!(FRAME_BYTES < OUTBOX_BYTES && SHORT_FRAME_BYTES < FRAME_BYTES);
const _: () = assert!(NEWS_OF_A_NAME < NEWS_KEPT && SESSIONS_OF_A_NAME < SESSIONS_LEFT);
const _: () = assert!(WAITING_SLOTS >= 1, "one slot must be able to fill up");
const _: () = assert!(
    EXPRESSION_STACK >= 2 * (EXPRESSION_NESTING * (256 << 10) + EXPRESSION_OPERATORS * (16 << 10)),
    "the parser must not run out of stack on an expression within the limits"
);
const _: () = assert!(TRACE_LINE_BYTES <= TRACE_SLOT_BYTES);
const _: () = assert!(UNDECIDED_PER_AGENT <= UNDECIDED);
const _: () =
    assert!(SLOT_INPUTS * FRAME_BYTES + (64 << 20) <= RECORD_BYTES, "a full slot must fit a record");
const _: () = assert!(RECORD_BYTES < (u32::MAX / 8) as usize - 64, "a checksum must place any flipped bit");
const _: () = assert!(SNAPSHOT_CHUNK_BYTES <= RECORD_BYTES);
const _: () = assert!(PATH_BYTES >= PATH_SEGMENTS * 2 - 1, "the deepest path must be spellable");
const _: () = assert!(SEGMENT_BYTES <= PATH_BYTES);
const _: () = assert!(CORNERS_MIN >= 3 && CORNERS_MIN < CORNERS_MAX);
const _: () = assert!(SLOT_MAX.as_us() <= ASK_AGAIN_MOST.as_us(), "who asks again waits a slot at least");
const _: () = assert!(SLOT_MIN.as_us() > 0 && SLOT_MIN.as_us() < SLOT_MAX.as_us());

/// Texts for people that wait for a standard error whose reader does not read; older ones are left out.
pub const VOICE_TEXTS: usize = 1024;
/// How long a command that speaks by a thread of its own waits for that to be written when it ends.
pub const VOICE_FLUSHES_WITHIN: Micros = Micros::from_secs(1);
