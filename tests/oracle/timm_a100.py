"""Models of timm that others measured on real GPUs (`fixtures/measured/timm.csv`): `ORACLE_ZOO=timm_a100.py`.

About two for each family, small and large, at the resolution that each has by default. Left out are those whose
constants do not compress below 60 kB (Swin), and those that the exporter does not know (halo attention, VOLO).
"""

#: Names by resolution.
MODELS = {
    106: """
        tinynet_e
    """,
    160: """
        resnetrs50 test_byobnet test_efficientnet test_vit
    """,
    176: """
        resnet10t
    """,
    192: """
        dm_nfnet_f0 tf_efficientnetv2_b0
    """,
    224: """
        beit_base_patch16_224 beitv2_base_patch16_224 cait_xxs24_224 coatnet_pico_rw_224 coatnext_nano_rw_224
        convformer_m36 convformer_s18 convmixer_1024_20_ks9_p14 convmixer_768_32 convnext_atto convnext_nano
        convnextv2_atto convnextv2_small deit_base_patch16_224 deit_tiny_patch16_224 eca_nfnet_l0
        eca_vovnet39b ecaresnet50d_pruned ecaresnetlight ecaresnext26t_32x4d efficientformer_l1
        efficientnetv2_rw_t efficientvit_m0 fbnetc_100 fbnetv3_b gcvit_xxtiny gernet_s gmixer_12_224
        gmlp_ti16_224 hardcorenas_b hgnet_tiny hgnetv2_b0 hiera_tiny_224 legacy_senet154 legacy_seresnet18
        legacy_seresnext26_32x4d levit_128s mnasnet_small mobilenet_edgetpu_v2_xs mobileone_s1 nextvit_small
        poolformerv2_s12 pvt_v2_b0 regnety_002 regnetz_005 repghostnet_050 repvgg_a0 repvit_m0_9
        res2net50_48w_2s resmlp_12_224 resnest14d resnetv2_50d_gn rexnetr_100 seresnet18 seresnext26t_32x4d
        skresnet18 skresnext50_32x4d spnasnet_100 tf_efficientnet_lite0 tf_mixnet_s
        tf_mobilenetv3_small_minimal_100 tnt_s_patch16_224 vit_xsmall_patch16_clip_224 vovnet39a
    """,
    240: """
        efficientnet_b1_pruned
    """,
    256: """
        botnet26t_256 botnet50ts_256 cspresnet50 cspresnet50d cspresnext50 darknet17 darknet21
        eca_botnext26ts_256 eca_resnet33ts eca_resnext26ts fastvit_mci0 gcresnext26ts hieradet_small
        lambda_resnet26t maxxvitv2_nano_rw_256 sebotnet33ts_256
    """,
    299: """
        legacy_xception
    """,
    384: """
        cait_xxs36_384
    """,
    896: """
        sam2_hiera_tiny
    """,
}

for size, names in MODELS.items():
    for name in names.split():
        add(name, timm(name), 'image', size=size)
