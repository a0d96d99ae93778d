//! What people read.

use expect_test::expect;
use highwater_core::{device, ops};

use crate::run::{highwater, model};

#[test]
fn the_report_of_one_model() {
    let model = model("train/alexnet");
    let outcome = highwater(&["estimate", &model, "--dim", "batch=64", "--optimizer", "adam"]);
    expect![[r#"
        alexnet.onnx peaks at 1.18 GiB allocated in the optimizer's step: fits on all 32 GPUs; GeForce RTX 2080 Ti: up to batch 2097

          model     61,100,840 parameters (233.08 MiB), buffers 0 B, 22 operators
          training  batch = 64; adam, fp32
          as on     A100 80 GB, PyTorch 2.15

        Peaks
          requested  1.17 GiB  asked for by tensors, at the peak of allocated
          allocated  1.18 GiB  in blocks handed out: torch.cuda.max_memory_allocated()
          reserved   1.49 GiB  held from the driver: torch.cuda.max_memory_reserved()
          process    2.00 GiB  with the CUDA context: about what nvidia-smi shows

        Each iteration
             requested  allocated  reserved
          1   1.17 GiB   1.18 GiB  1.49 GiB
          2   1.17 GiB   1.18 GiB  1.49 GiB
          3   1.17 GiB   1.18 GiB  1.49 GiB

        At the peak of allocated, iteration 1, the optimizer's step (aten::_foreach_sqrt)
          optimizer state  466.16 MiB  39 %  ████████████
          parameter        233.08 MiB  19 %  ██████
          gradient         233.08 MiB  19 %  ██████
          temporary        233.08 MiB  19 %  ██████
          input             36.75 MiB   3 %  █
          activation       250.00 KiB   0 %

        Largest modules at that moment
          optimizer     699.24 MiB  58 %
          classifier.1  288.03 MiB  24 %
          classifier.4  128.03 MiB  11 %
          (no module)    36.75 MiB   3 %
          classifier.6   31.50 MiB   3 %
          features.8      6.75 MiB   1 %
          features.6      5.07 MiB   0 %
          features.10     4.50 MiB   0 %
          (3 others)      2.52 MiB   0 %

        GPUs
                                  verdict      need    capacity      margin  largest batch
          GeForce RTX 2080 Ti     fits     1.72 GiB   10.75 GiB    9.03 GiB           2097
          GeForce RTX 3060 12 GB  fits     1.67 GiB   11.66 GiB    9.99 GiB           2427
          T4                      fits     1.67 GiB   14.56 GiB   12.90 GiB           2985
          RTX A4000               fits     1.73 GiB   15.60 GiB   13.87 GiB           2931
          Tesla V100 16 GB        fits     1.89 GiB   15.75 GiB   13.86 GiB           2927
          L4                      fits     1.75 GiB   22.03 GiB   20.28 GiB           4736
          A10                     fits     1.79 GiB   22.05 GiB   20.26 GiB           4619
          A10G                    fits     1.82 GiB   22.06 GiB   20.24 GiB           4626
          GeForce RTX 4090        fits     1.95 GiB   23.52 GiB   21.56 GiB           4910
          A30                     fits     1.80 GiB   23.53 GiB   21.73 GiB           4937
          GeForce RTX 3090        fits     1.82 GiB   23.56 GiB   21.74 GiB           5000
          RTX A5000               fits     1.77 GiB   23.57 GiB   21.80 GiB           4881
          GeForce RTX 5090        fits     2.09 GiB   31.35 GiB   29.26 GiB           7103
          Tesla V100 32 GB        fits     1.89 GiB   31.73 GiB   29.84 GiB           7237
          A100 40 GB              fits     2.00 GiB   39.38 GiB   37.38 GiB           8462
          A40                     fits     1.83 GiB   44.34 GiB   42.51 GiB           9983
          L40                     fits     1.99 GiB   44.40 GiB   42.41 GiB           9687
          L20                     fits     1.85 GiB   44.42 GiB   42.57 GiB           9627
          L40S                    fits     1.99 GiB   44.42 GiB   42.43 GiB           9642
          RTX 6000 Ada            fits     1.99 GiB   47.38 GiB   45.39 GiB          11012
          RTX A6000               fits     1.83 GiB   47.40 GiB   45.57 GiB          10308
          Quadro RTX 8000         fits     1.73 GiB   47.45 GiB   45.72 GiB          10335
          H100 SXM                fits     2.11 GiB   79.10 GiB   76.99 GiB          18643
          H100 PCIe               fits     2.04 GiB   79.11 GiB   77.07 GiB          18586
          A100 80 GB              fits     2.00 GiB   79.14 GiB   77.14 GiB          18395
          H100 NVL                fits     2.11 GiB   93.02 GiB   90.91 GiB          21906
          GH200 96 GB             fits     2.11 GiB   94.50 GiB   92.39 GiB          20850
          RTX PRO 6000 Blackwell  fits     2.14 GiB   94.96 GiB   92.82 GiB          21212
          H20                     fits     1.90 GiB   95.08 GiB   93.18 GiB          21032
          H200                    fits     2.11 GiB  139.80 GiB  137.69 GiB          31743
          B200                    fits     2.17 GiB  178.35 GiB  176.18 GiB          39668
          GB200                   fits     2.17 GiB  184.31 GiB  182.14 GiB          38036

        What this rests on
          info [assumed-loss] the loss is taken to be cross-entropy with one class index per sample
          info [assumed-in-place] 5 activations and sums behind convolutions and normalisations are taken to overwrite their input, as in torchvision's models; no exporter tells
    "#]].assert_eq(&outcome.stdout);
}

#[test]
fn every_operator_and_device_is_listed() {
    let first_words = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let listed = first_words(&highwater(&["operators"]).stdout);
    for operator in ops::all() {
        assert!(listed.iter().any(|name| name == operator.name), "{}", operator.name);
    }
    let listed = first_words(&highwater(&["devices"]).stdout);
    for device in device::all() {
        assert!(listed.iter().any(|id| id == device.id), "{}", device.id);
    }
}
