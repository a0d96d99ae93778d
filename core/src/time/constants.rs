//! The constants that `tests/times/fit.py` fitted to measured kernels, `tests/times/networks.py` to whole steps, and
//! `tests/times/published.py` to published ones; and published measurements of exchanges between GPUs. They are in `fitted`.

use crate::decimal;

/// Name, value, and in comments the meaning and the unit of each.
const TEXTS: [&str; 4] = [
    include_str!("fitted/constants.toml"),
    include_str!("fitted/networks.toml"),
    include_str!("fitted/published.toml"),
    include_str!("fitted/links.toml"),
];

/// Declares [`Constants`] and how they are read.
macro_rules! constants {
    ($($name:ident),+ $(,)?) => {
        /// The constants by name; [`TEXTS`] have their meaning and unit.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub(super) struct Constants {
            $(pub(super) $name: f64,)+
        }

        impl Constants {
            /// All of them.
            pub(super) fn read() -> Self {
                let mut all = Self::default();
                let lines = TEXTS.into_iter().flat_map(str::lines);
                for (name, value) in lines.filter_map(|line| line.split_once(" = ")) {
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
    tile_latency, work_per_joule, work_per_joule_4n, throttle, exposed, share_geforce, gap, half_peak, half_128x64,
    half_64x64, half_128x32, half_latency, conv_peak, conv_filter, conv_odd, turn, group_first, group_last,
    group_filter, group_filter_last, depthwise_first, depthwise_last, depthwise_filter_first,
    depthwise_filter_last, attention_peak, norm_latency, batch_norm_rate, interval,
    interval_unfitted, host_typical, winograd, tf32_peak, nvlink_share, pcie_share, nic_share, nic_gbs,
    exchange_near, exchange_far,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts have exactly the constants that the model uses.
    #[test]
    fn every_constant_is_written() {
        let named = Constants::read().named();
        let lines =
            TEXTS.into_iter().flat_map(str::lines).filter(|line| line.contains(" = ")).count();
        assert_eq!(named.len(), lines);
        for (name, value) in named {
            assert!(value > 0.0, "{name}");
        }
    }
}
