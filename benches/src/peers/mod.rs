//! What a competent user would write instead.

pub(crate) mod by_etcd;
pub(crate) mod by_postgres;
pub(crate) mod by_redis;
pub(crate) mod ceiling;
