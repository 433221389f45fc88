//! One transaction a call on PostgreSQL: the row locked, the operation inserted under its unique index, the row updated. It
//! is one function, so a call is one round trip; spelled out from the client it would be five.

use tokio_postgres::{Client, Statement};

use crate::Outcome;
use crate::drive::Caller;
use crate::servers::Postgres;
use crate::work::{self, DIGEST, Fresh, Walk};

const SCHEMA: &str = "
create table if not exists orders (id text primary key, state text not null);
create table if not exists operations (
  order_id text not null, operation text not null, digest bytea not null, reply text not null,
  primary key (order_id, operation));
create or replace function move(order_of text, op text, before text, after text, said bytea, answer text)
returns table (verdict text, stored text) language plpgsql as $$
declare found_state text; done operations%rowtype;
begin
  if before = '' then
    insert into orders values (order_of, '') on conflict do nothing;
  end if;
  select state into found_state from orders where id = order_of for update;
  select * into done from operations where order_id = order_of and operation = op;
  if found then
    return query select case when done.digest = said then 'REPLAYED' else 'CONFLICT' end, done.reply;
    return;
  end if;
  if found_state is distinct from before then
    return query select 'REJECTED', coalesce(found_state, '');
    return;
  end if;
  insert into operations values (order_of, op, said, answer);
  update orders set state = after where id = order_of;
  return query select 'APPLIED', answer;
end $$;
";

/// Makes the tables.
pub(crate) async fn prepare(postgres: &Postgres) -> Outcome<()> {
    Ok(postgres.client().await?.batch_execute(SCHEMA).await?)
}

/// One prepared statement a call, on a connection of its own.
pub(crate) struct Mover {
    client: Client,
    statement: Statement,
    walk: Walk,
}

impl Mover {
    pub(crate) async fn several(
        postgres: &Postgres,
        callers: usize,
        fresh: &Fresh,
    ) -> Outcome<Vec<Self>> {
        let mut movers = Vec::new();
        for _ in 0..callers {
            let client = postgres.client().await?;
            let statement = client
                .prepare("select verdict, stored from move($1, $2, $3, $4, $5, $6)")
                .await?;
            movers.push(Self {
                client,
                statement,
                walk: Walk::new(fresh),
            });
        }
        Ok(movers)
    }
}

impl Caller for Mover {
    async fn call(&mut self) -> Outcome<()> {
        let (resource, step) = self.walk.next();
        let reply = work::result(resource, step.operation);
        let row = self
            .client
            .query_one(
                &self.statement,
                &[
                    &resource,
                    &step.operation,
                    &step.from,
                    &step.to,
                    &&DIGEST[..],
                    &reply,
                ],
            )
            .await?;
        let (verdict, stored): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if verdict != "APPLIED" || stored != reply {
            return Err(format!("not applied: {verdict} {stored:?}").into());
        }
        Ok(())
    }
}
