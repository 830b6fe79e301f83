//! Where tensors live, and how many threads compute.

use crate::error::Error;
use tch::{Cuda, Device};

/// Reads `auto`, `cpu`, `cuda` or `cuda:N`; `auto` is the first CUDA device, or the CPU where there is none.
pub(crate) fn parse(text: &str) -> Result<Device, Error> {
    let fail = |problem: String| {
        Err(Error::Device {
            device: text.to_owned(),
            problem,
        })
    };
    let index = match text {
        "cpu" => return Ok(Device::Cpu),
        "auto" => return Ok(Device::cuda_if_available()),
        "cuda" => 0,
        _ => match text.strip_prefix("cuda:").map(str::parse::<usize>) {
            Some(Ok(index)) => index,
            _ => return fail("unknown device; `auto`, `cpu`, `cuda` and `cuda:N` are known".into()),
        },
    };
    if !Cuda::is_available() {
        return fail(format!(
            "libtorch finds no CUDA device ({}); set run.device to `cpu` or `auto` to do without",
            if tch::utils::has_cuda() {
                "check the driver with nvidia-smi"
            } else {
                "it was built without CUDA"
            }
        ));
    }
    let devices = usize::try_from(Cuda::device_count()).unwrap_or(0);
    if index >= devices {
        return fail(format!(
            "this machine has {devices} CUDA devices, numbered from 0"
        ));
    }
    Ok(Device::Cuda(index))
}

/// Sets libtorch's intra-op threads for the whole process. Its inter-op pool is left alone: only JIT forks
/// start it, and there are none here.
pub(crate) fn set_threads(threads: usize) -> Result<(), Error> {
    match i32::try_from(threads) {
        Ok(count @ 1..=1024) => {
            tch::set_num_threads(count);
            Ok(())
        }
        _ => Err(Error::Setting {
            name: "worker.threads",
            range: "1 to 1024",
            value: threads,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_read() {
        assert_eq!(parse("cpu").unwrap(), Device::Cpu);
        assert!(parse("auto").is_ok());
    }

    #[test]
    fn others_are_refused_with_words() {
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains("unknown device"), "{message}");
        }
        if !Cuda::is_available() {
            let message = parse("cuda:1").unwrap_err().to_string();
            assert!(
                message.starts_with("run.device = \"cuda:1\": libtorch finds no CUDA device"),
                "{message}"
            );
        }
        assert!(parse("cuda:4096").is_err());
        assert!(set_threads(0).is_err());
    }
}
