//! The choice between the two builds of a kernel.

/// Makes a public function of a safe loop: the loop is compiled once for any processor and once for AVX2.
///
/// `kernel! { /// Docs. pub fn name(args) -> Result = body; }` where `body` is an `#[inline(always)]` function.
macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $of:ty),* $(,)?) $(-> $result:ty)? = $body:path;) => {
        $(#[$doc])*
        $vis fn $name($($arg: $of),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn with_avx2($($arg: $of),*) $(-> $result)? {
                    $body($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    #[expect(unsafe_code, reason = "the only way to call code for a feature that was found at run time")]
                    // SAFETY: the processor has AVX2, as was just asked; the function itself is safe.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
