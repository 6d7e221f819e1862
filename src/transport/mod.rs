//! QUIC: connections, lanes of frames, and what leaves on them.
//!
//! A shell. It moves frames and knows no more of a message than how to cut and decode it; whatever
//! arrives, it takes bounded memory, and a peer that breaks the protocol loses its own connection
//! and nobody else's.

#[cfg(feature = "daemon")]
mod endpoint;
#[cfg(feature = "daemon")]
mod lane;
#[cfg(feature = "daemon")]
mod outbox;
#[cfg(feature = "daemon")]
mod reading;
#[cfg(feature = "daemon")]
mod stamped_socket;
#[cfg(feature = "daemon")]
mod tls;
mod tuning;

#[cfg(feature = "daemon")]
pub use endpoint::BindError;
#[cfg(feature = "daemon")]
pub(crate) use endpoint::{bind, bind_tuned};
#[cfg(feature = "daemon")]
pub(crate) use lane::{LaneError, LaneReader};
#[cfg(feature = "daemon")]
pub(crate) use outbox::{Outbox, write_out};
#[cfg(feature = "daemon")]
pub(crate) use reading::raise_limit;
#[cfg(feature = "daemon")]
pub use reading::{SocketBuffers, SocketReading};
#[cfg(feature = "daemon")]
pub use stamped_socket::Departure;
#[cfg(feature = "daemon")]
pub(crate) use stamped_socket::{Departures, Sending};
#[cfg(feature = "daemon")]
pub use tls::{Identity, IdentityError};
pub use tuning::{Congestion, Tuning};
