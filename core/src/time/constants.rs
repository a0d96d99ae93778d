//! The constants that `tests/times/fit.py` fitted to measured kernels.

use crate::decimal;

/// Name, value, and in comments the meaning and the unit of each.
const TEXT: &str = include_str!("../../../tests/times/constants.toml");

/// Declares [`Constants`] and how they are read.
macro_rules! constants {
    ($($name:ident),+ $(,)?) => {
        /// The constants by name; [`TEXT`] has their meaning and unit.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub(super) struct Constants {
            $(pub(super) $name: f64,)+
        }

        impl Constants {
            /// All of them.
            pub(super) fn read() -> Self {
                let mut all = Self::default();
                for (name, value) in TEXT.lines().filter_map(|line| line.split_once(" = ")) {
                    match name {
                        $(stringify!($name) => all.$name = decimal::prefix(value).unwrap_or_default(),)+
                        _ => {}
                    }
                }
                all
            }

            /// Names and values, for tests.
            #[cfg(test)]
            pub(super) fn named(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

constants! {
    launch_elementwise, share_hbm, share_other, l2_free, l2_span, l2_rate, launch_softmax, launch_norm, cache_free,
    cache_span, row_latency, load_latency, launch_gemm, peak_64, peak_128, tile_128x64, tile_64x64, tile_128x32,
    tile_latency, work_per_joule, work_per_joule_4n, throttle, exposed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text has exactly the constants that the model uses.
    #[test]
    fn every_constant_is_written() {
        let named = Constants::read().named();
        let lines = TEXT.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!(named.len(), lines);
        for (name, value) in named {
            assert!(value > 0.0, "{name}");
        }
    }
}
