//! etcd as its users lock with it: a lease for each agent, and a transaction that puts the keys where nobody
//! has them, or its lock service, which has a queue. Its few messages by hand, as rpc.proto numbers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::Failure;
use crate::dice::Dice;
use crate::drive::Agent;
use crate::timer::sleep;
use crate::work::{Wanted, ancestors, covering};

/// How long an agent's keys live should it vanish; no run takes so long that it would have to be renewed.
const LEASE_SECONDS: i64 = 120;

const TXN: &str = "/etcdserverpb.KV/Txn";
const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32, // 0: equal
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "With", tags = "5, 8")]
    with: Option<With>,
    #[prost(bytes = "vec", tag = "64")]
    range_end: Vec<u8>,
}

const TARGET_CREATE: i32 = 1;
const TARGET_LEASE: i32 = 4;

#[derive(Clone, PartialEq, prost::Oneof)]
enum With {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DeleteRange {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(oneof = "Op", tags = "2, 3")]
    op: Option<Op>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Op {
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRange),
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

/// A connection with a lease.
#[derive(Clone)]
struct Session {
    channel: Channel,
    lease: i64,
    prefix: Arc<str>,
    requests: Arc<AtomicU64>,
}

impl Session {
    async fn open(port: u16, prefix: Arc<str>, requests: Arc<AtomicU64>) -> Result<Self, Failure> {
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect().await?;
        let mut session = Session { channel, lease: 0, prefix, requests: Arc::default() };
        let granted: LeaseGrantResponse =
            session.ask(LEASE_GRANT, LeaseGrantRequest { ttl: LEASE_SECONDS }).await?;
        Ok(Session { lease: granted.id, requests, ..session })
    }

    async fn ask<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::default());
        Ok(grpc.unary(tonic::Request::new(request), path, codec).await?.into_inner())
    }

    fn key(&self, path: &str) -> Vec<u8> {
        format!("{}/{path}", self.prefix).into_bytes()
    }

    /// That nobody has this node, one above it, or one below it: compared in the same transaction.
    fn nobody_has(&self, path: &str) -> Vec<Compare> {
        let is_free = |key: Vec<u8>, range_end: Vec<u8>| {
            let with = Some(With::CreateRevision(0));
            Compare { result: 0, target: TARGET_CREATE, key, with, range_end }
        };
        let mut all: Vec<Compare> =
            ancestors(path).map(|above| is_free(self.key(above), Vec::new())).collect();
        all.push(is_free(self.key(path), Vec::new()));
        // All keys that begin with `path/`: '0' comes after '/'.
        all.push(is_free(self.key(&format!("{path}/")), self.key(&format!("{path}0"))));
        all
    }
}

/// By transactions; where one fails, a pause and another try.
#[derive(Clone)]
pub(crate) struct EtcdTxn {
    session: Session,
    dice: Dice,
}

impl EtcdTxn {
    pub(crate) async fn connect(
        port: u16,
        prefix: Arc<str>,
        index: usize,
        requests: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        Ok(EtcdTxn {
            session: Session::open(port, prefix, requests).await?,
            dice: Dice::new(index as u64 + 2000),
        })
    }
}

impl Agent for EtcdTxn {
    type Held = Vec<Vec<u8>>;

    fn twin(&self, index: usize) -> Self {
        EtcdTxn { dice: Dice::new(index as u64 + 2000), ..self.clone() }
    }

    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let keys: Vec<Vec<u8>> = wanted.paths.iter().map(|path| self.session.key(path)).collect();
        let compare: Vec<Compare> =
            wanted.paths.iter().flat_map(|path| self.session.nobody_has(path)).collect();
        let lease = self.session.lease;
        let put = |key: &Vec<u8>| Op::Put(Put { key: key.clone(), value: Vec::new(), lease });
        let success: Vec<RequestOp> = keys.iter().map(|key| RequestOp { op: Some(put(key)) }).collect();
        loop {
            let request = TxnRequest { compare: compare.clone(), success: success.clone() };
            let answer: TxnResponse = self.session.ask(TXN, request).await?;
            if answer.succeeded {
                return Ok(keys);
            }
            sleep(self.dice.pause()).await;
        }
    }

    /// Deletes what is under its own lease.
    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        let with = Some(With::Lease(self.session.lease));
        let own = |key: &Vec<u8>| {
            let (key, with) = (key.clone(), with.clone());
            Compare { result: 0, target: TARGET_LEASE, key, with, range_end: Vec::new() }
        };
        let delete =
            |key: &Vec<u8>| RequestOp { op: Some(Op::DeleteRange(DeleteRange { key: key.clone() })) };
        let request = TxnRequest {
            compare: held.iter().map(own).collect(),
            success: held.iter().map(delete).collect(),
        };
        let answer: TxnResponse = self.session.ask(TXN, request).await?;
        if answer.succeeded { Ok(()) } else { Err("etcd: the keys are another's".into()) }
    }
}

/// By the lock service, which makes those wait that come later.
#[derive(Clone)]
pub(crate) struct EtcdLock(Session);

impl EtcdLock {
    pub(crate) async fn connect(
        port: u16,
        prefix: Arc<str>,
        requests: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        Ok(EtcdLock(Session::open(port, prefix, requests).await?))
    }
}

impl Agent for EtcdLock {
    type Held = Vec<Vec<u8>>;

    fn twin(&self, _index: usize) -> Self {
        self.clone()
    }

    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let mut keys = Vec::new();
        for path in &wanted.paths {
            let request = LockRequest { name: self.0.key(covering(path)), lease: self.0.lease };
            let answer: LockResponse = self.0.ask(LOCK, request).await?;
            keys.push(answer.key);
        }
        Ok(keys)
    }

    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        for key in held {
            let _: UnlockResponse = self.0.ask(UNLOCK, UnlockRequest { key }).await?;
        }
        Ok(())
    }
}
