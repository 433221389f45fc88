//! One Lua script a call on Redis: the state, and the stored reply of each operation. The connections pipeline what their
//! callers send, so that many scripts share one flush.

use std::sync::Arc;

use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::Outcome;
use crate::drive::Caller;
use crate::servers::Redis;
use crate::work::{self, DIGEST, Fresh, Walk};

/// How long a reply is kept, in seconds: four days.
const KEPT_SECONDS: u32 = 4 * 24 * 60 * 60;

// KEYS: state, operation. ARGV: state before, state after, digest, reply, time to live.
const MOVE: &str = r"
local done = redis.call('GET', KEYS[2])
if done then
  if string.sub(done, 1, 32) ~= ARGV[3] then return {'CONFLICT', ''} end
  return {'REPLAYED', string.sub(done, 33)}
end
local state = redis.call('GET', KEYS[1]) or ''
if state ~= ARGV[1] then return {'REJECTED', state} end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[3] .. ARGV[4], 'EX', ARGV[5])
return {'APPLIED', ARGV[4]}
";

/// Connections of one application, shared by its callers.
pub(crate) struct Connections {
    connections: Vec<MultiplexedConnection>,
    script: Arc<Script>,
}

impl Connections {
    pub(crate) async fn open(redis: &Redis, count: usize) -> Outcome<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(redis.client.get_multiplexed_async_connection().await?);
        }
        let script = Arc::new(Script::new(MOVE));
        script.load_async(&mut connections[0]).await?;
        Ok(Self {
            connections,
            script,
        })
    }

    pub(crate) fn movers(&self, callers: usize, fresh: &Fresh) -> Vec<Mover> {
        let mover = |caller: usize| Mover {
            connection: self.connections[caller % self.connections.len()].clone(),
            script: Arc::clone(&self.script),
            walk: Walk::new(fresh),
        };
        (0..callers).map(mover).collect()
    }
}

/// One EVALSHA a call.
pub(crate) struct Mover {
    connection: MultiplexedConnection,
    script: Arc<Script>,
    walk: Walk,
}

impl Caller for Mover {
    async fn call(&mut self) -> Outcome<()> {
        let (resource, step) = self.walk.next();
        let reply = work::result(resource, step.operation);
        let mut call = self.script.prepare_invoke();
        call.key(format!("state:{resource}"))
            .key(format!("op:{resource}:{}", step.operation))
            .arg(step.from)
            .arg(step.to)
            .arg(&DIGEST[..])
            .arg(&reply)
            .arg(KEPT_SECONDS);
        let (verdict, said): (String, String) = call.invoke_async(&mut self.connection).await?;
        if verdict != "APPLIED" || said != reply {
            return Err(format!("not applied: {verdict} {said:?}").into());
        }
        Ok(())
    }
}
