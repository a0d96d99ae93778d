"""Models beside the zoo, which no rule was written with in mind: `ORACLE_ZOO=outside.py`.

Sizes of language models are reduced where the published one is large; their structure is whole.
"""

for name in """
    resnext50_32x4d wide_resnet50_2 densenet169 shufflenet_v2_x0_5 mnasnet0_5 convnext_small
    swin_v2_t vit_l_32 regnet_y_800mf efficientnet_b1
""".split():
    add(name, torchvision(name), 'image')
for name in """
    mixer_b16_224 resmlp_12_224 cait_xxs24_224 ghostnet_100 pvt_v2_b0 poolformer_s12 convmixer_768_32
    mobilevit_s seresnet50 xcit_nano_12_p16_224 beit_base_patch16_224 edgenext_x_small
""".split():
    add(name, timm(name), 'image')
add('levit_128', timm('levit_128'), 'image')

add('electra_small', transformers('ElectraForMaskedLM', 'ElectraConfig'), 'mlm')
albert = dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
add('albert_base', transformers('AlbertForMaskedLM', 'AlbertConfig', **albert), 'mlm')
bloom = dict(hidden_size=512, n_layer=8, n_head=8, vocab_size=50304)
add('bloom_small', transformers('BloomForCausalLM', 'BloomConfig', **bloom), 'clm')
mpt = dict(d_model=512, n_heads=8, n_layers=8, vocab_size=50368)
add('mpt_small', transformers('MptForCausalLM', 'MptConfig', **mpt), 'clm')
base = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048)
add('phi_small', transformers('PhiForCausalLM', 'PhiConfig', vocab_size=51200, **base), 'clm')
gemma = dict(**base, vocab_size=50304, num_key_value_heads=1, head_dim=64)
add('gemma_small', transformers('GemmaForCausalLM', 'GemmaConfig', **gemma), 'clm')
mistral = dict(**base, vocab_size=32000, num_key_value_heads=2)
add('mistral_small', transformers('MistralForCausalLM', 'MistralConfig', **mistral), 'clm')
falcon = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, vocab_size=65024)
add('falcon_small', transformers('FalconForCausalLM', 'FalconConfig', **falcon), 'clm')
bart = dict(d_model=768, encoder_layers=6, decoder_layers=6)
bart |= dict(encoder_attention_heads=12, decoder_attention_heads=12)
bart |= dict(encoder_ffn_dim=3072, decoder_ffn_dim=3072)
add('bart_base', transformers('BartForConditionalGeneration', 'BartConfig', **bart), 'seq2seq')

tiny = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
deberta = dict(relative_attention=True, pos_att_type=['p2c', 'c2p'], position_buckets=256)
deberta |= dict(norm_rel_ebd='layer_norm', share_att_key=True, vocab_size=32000, **tiny)
add('deberta_v2_small', transformers('DebertaV2ForMaskedLM', 'DebertaV2Config', **deberta), 'mlm')
gemma2 = dict(**tiny, vocab_size=50304, num_key_value_heads=2, head_dim=64)
add('gemma2_small', transformers('Gemma2ForCausalLM', 'Gemma2Config', **gemma2), 'clm')
mt5 = dict(d_model=256, d_kv=64, d_ff=512, num_layers=4, num_heads=4, vocab_size=50000)
mt5 |= dict(decoder_start_token_id=0)
add('mt5_tiny', transformers('MT5ForConditionalGeneration', 'MT5Config', **mt5), 'seq2seq')
