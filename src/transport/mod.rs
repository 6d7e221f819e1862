//! QUIC: connections, lanes of frames, and what leaves on them.
//!
//! A shell. It moves frames and knows no more of a message than how to cut and decode it; whatever
//! arrives, it takes bounded memory, and a peer that breaks the protocol loses its own connection
//! and nobody else's.

mod access;
mod endpoint;
mod lane;
mod outbox;
mod reading;
mod stamped_socket;
mod tls;

pub(crate) use access::Shown;
pub use access::{Access, Certificates};
pub use endpoint::BindError;
pub(crate) use endpoint::{Bound, Connections, bind, transport};
pub(crate) use lane::{LaneError, LaneReader};
pub(crate) use outbox::{Outbox, SlotNews, write_out};
pub(crate) use reading::raise_limit;
pub use reading::{SocketBuffers, SocketReading};
pub use stamped_socket::Departure;
pub(crate) use stamped_socket::{Departures, Sending};
pub use tls::{Identity, IdentityError};
