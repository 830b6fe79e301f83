//! The choice between the builds of a kernel.

/// What a kernel is built for. Each level has what those before it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) enum Level {
    /// Any processor.
    Portable,
    /// AVX2, BMI1 and POPCNT.
    Avx2,
    /// AVX-512 as it is since Ice Lake and Zen 4. Processors before them slow down for a while when they use it.
    Avx512,
}

/// The best level that this processor has.
#[cfg(target_arch = "x86_64")]
fn detected() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("bmi1") && has!("popcnt")) {
        Level::Portable
    } else if has!("avx512f")
        && has!("avx512bw")
        && has!("avx512dq")
        && has!("avx512vl")
        && has!("avx512vbmi2")
    {
        Level::Avx512
    } else {
        Level::Avx2
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[allow(dead_code)]
fn detected() -> Level {
    Level::Portable
}

/// The level to work at.
#[inline]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    let limit = tests::LIMIT.get();
    #[cfg(not(test))]
    let limit = Level::Avx512;
    detected().min(limit)
}

/// Makes a public function of a safe loop: the loop is compiled once for each [`Level`].
///
/// `kernel! { /// Docs. pub fn name(args) -> Result = body; }` where `body` is an `#[inline(always)]` function.
macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $of:ty),* $(,)?) $(-> $result:ty)? = $body:path;) => {
        $(#[$doc])*
        $vis fn $name($($arg: $of),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,popcnt")]
                fn with_avx2($($arg: $of),*) $(-> $result)? {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi1,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2")]
                fn with_avx512($($arg: $of),*) $(-> $result)? {
                    $body($($arg),*)
                }
                #[expect(unsafe_code, reason = "the only way to call code for a feature that was found at run time")]
                match $crate::dispatch::level() {
                    // SAFETY: the processor has AVX-512, as was just asked; the function itself is safe.
                    $crate::dispatch::Level::Avx512 => return unsafe { with_avx512($($arg),*) },
                    // SAFETY: the processor has AVX2, as was just asked; the function itself is safe.
                    $crate::dispatch::Level::Avx2 => return unsafe { with_avx2($($arg),*) },
                    $crate::dispatch::Level::Portable => {}
                }
            }
            $body($($arg),*)
        }
    };
}

/// So that tests reach every build that this processor can run.
#[cfg(test)]
pub(crate) mod tests {
    use super::{Level, detected};
    use std::cell::Cell;

    thread_local! {
        pub(super) static LIMIT: Cell<Level> = const { Cell::new(Level::Avx512) };
    }

    /// The levels that this processor has.
    pub(crate) fn levels() -> impl Iterator<Item = Level> {
        [Level::Portable, Level::Avx2, Level::Avx512]
            .into_iter()
            .filter(|&level| level <= detected())
    }

    /// What `work` comes to at a level.
    pub(crate) fn at<T>(level: Level, work: impl FnOnce() -> T) -> T {
        let before = LIMIT.replace(level);
        let result = work();
        LIMIT.set(before);
        result
    }
}
