use super::*;

const A100: Hardware = Hardware {
    capability: (8, 0),
    multiprocessors: 108,
    threads_per_multiprocessor: 2048,
    cublas_workspace: Bytes(8_519_680),
};

fn layer(input: [u64; 4], weight: [u64; 4], output: [u64; 4], stride: u64) -> Layer {
    let (channels, group) = (input[1], weight[1]);
    Layer {
        input: input.to_vec(),
        weight: weight.to_vec(),
        output: output.to_vec(),
        stride: vec![stride; 2],
        dilation: vec![1; 2],
        groups: channels.div_euclid(group),
        element: Bytes(4),
        channels_last: false,
        transposed: false,
        native: false,
    }
}

#[test]
fn resnet50s_first_layer() {
    let layer = layer([8, 3, 224, 224], [64, 3, 7, 7], [8, 64, 112, 112], 2);
    assert_eq!(size(&A100, &layer, Direction::Forward), Bytes(30_544_656));
}
