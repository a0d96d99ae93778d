// Texts that people paste, which several tests need.

/** What `nvidia-smi` prints on a machine with a T4. */
export const SMI = `+-----------------------------------------------------------------------------+
| NVIDIA-SMI 450.51.05    Driver Version: 450.51.05    CUDA Version: 11.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   34C    P0    26W /  70W |   2548MiB / 15109MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
`;

/** A training recipe of axolotl. */
export const AXOLOTL = `base_model: meta-llama/Llama-3.2-1B
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_target_linear: true
sequence_len: 512
micro_batch_size: 2
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
learning_rate: 0.0002
`;
