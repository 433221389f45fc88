//! The development engine: etcd in memory, behind etcd's own service traits.
