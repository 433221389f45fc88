//! Compiles the interface (`proto/fencepost/v1`) and the format of stored records (`proto/fencepost/store/v1`).

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .file_descriptor_set_path(out.join("fencepost.v1.bin"))
        .compile_protos(
            &[
                "proto/fencepost/v1/coordination.proto",
                "proto/fencepost/v1/decision.proto",
                "proto/fencepost/v1/operator.proto",
            ],
            &["proto"],
        )?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .bytes(".")
        .compile_protos(&["proto/fencepost/store/v1/record.proto"], &["proto"])?;
    Ok(())
}
