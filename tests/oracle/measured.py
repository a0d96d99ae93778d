"""Models that others measured on real cards (`fixtures/measured`): `ORACLE_ZOO=measured.py`."""

# xMem resizes CIFAR-10.
for name in ('convnext_base', 'convnext_tiny'):
    add(f'{name}_86', torchvision(name, num_classes=10), 'image', size=86)

# CARMA.
add('xception', timm('legacy_xception'), 'image')
large = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
add('bert_large', transformers('BertForMaskedLM', 'BertConfig', **large), 'mlm')
xl = dict(n_embd=1600, n_layer=48, n_head=25)
add('gpt2_xl', transformers('GPT2LMHeadModel', 'GPT2Config', **xl), 'clm')

# MemRun.
add('vit_huge', timm('vit_huge_patch14_clip_224'), 'image')
t5 = dict(d_model=1024, d_ff=4096, num_layers=24, num_heads=16, decoder_start_token_id=0)
add('t5_large', transformers('T5ForConditionalGeneration', 'T5Config', **t5), 'seq2seq')
