"""Models of timm that others measured on real GPUs (`fixtures/measured/timm.csv`): `ORACLE_ZOO=timm_a100.py`.

About two for each family, small and large, at the resolution that each has by default. Left out are those whose
constants do not compress below 60 kB (Swin, most of MaxViT), and those that the exporter refuses (halo attention,
VOLO, conditional convolutions, rotary embeddings).
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
    188: """
        tinynet_b
    """,
    192: """
        dm_nfnet_f0 tf_efficientnetv2_b0
    """,
    224: """
        beit_base_patch16_224 beitv2_base_patch16_224 cait_xxs24_224 coatnet_pico_rw_224 coatnext_nano_rw_224
        convformer_m36 convformer_s18 convmixer_1024_20_ks9_p14 convmixer_768_32 convnext_atto convnext_base
        convnext_nano convnextv2_atto convnextv2_small deit_base_patch16_224 deit_tiny_patch16_224
        eca_nfnet_l0 eca_vovnet39b ecaresnet101d ecaresnet50d_pruned ecaresnetlight ecaresnext26t_32x4d
        ecaresnext50t_32x4d efficientformer_l1 efficientformer_l3 efficientnet_b0_g8_gn efficientnetv2_rw_t
        efficientvit_b1 efficientvit_m0 fbnetc_100 fbnetv3_b fbnetv3_d gcvit_xxtiny gernet_m gernet_s
        gmixer_12_224 gmixer_24_224 gmlp_s16_224 gmlp_ti16_224 hardcorenas_b hardcorenas_f hgnet_base
        hgnet_tiny hgnetv2_b0 hgnetv2_b4 hiera_base_plus_224 hiera_tiny_224 legacy_senet154 legacy_seresnet101
        legacy_seresnet18 legacy_seresnext26_32x4d legacy_seresnext50_32x4d levit_128s levit_256 levit_384
        mnasnet_100 mnasnet_small mobilenet_edgetpu_v2_m mobilenet_edgetpu_v2_xs mobileone_s1 mobileone_s3
        nextvit_base nextvit_small poolformerv2_m36 poolformerv2_s12 pvt_v2_b0 pvt_v2_b3 regnety_002
        regnety_032 regnety_120 regnetz_005 repghostnet_050 repghostnet_130 repvgg_a0 repvgg_b3g4 repvit_m0_9
        repvit_m3 res2net101_26w_4s res2net50_48w_2s resmlp_12_224 resmlp_36_224 resnest14d resnest50d_4s2x40d
        resnet18d resnet26d resnetv2_50 resnetv2_50d_frn resnetv2_50d_gn rexnetr_100 rexnetr_200 seresnet152
        seresnet18 seresnext101d_32x8d seresnext26t_32x4d skresnet18 skresnet50 skresnext50_32x4d spnasnet_100
        tf_efficientnet_lite0 tf_mixnet_m tf_mixnet_s tf_mobilenetv3_large_075
        tf_mobilenetv3_small_minimal_100 tnt_b_patch16_224 tnt_s_patch16_224 vit_base_patch16_rpn_224
        vit_base_patch32_224 vit_base_r26_s32_224 vit_base_r50_s16_224 vit_small_patch16_18x2_224
        vit_small_patch16_36x1_224 vit_small_patch32_224 vit_srelpos_small_patch16_224 vit_tiny_patch16_224
        vit_xsmall_patch16_clip_224 vovnet39a vovnet57a
    """,
    240: """
        efficientnet_b1_pruned tf_efficientnet_em vit_medium_patch16_gap_240
    """,
    256: """
        botnet26t_256 botnet50ts_256 cspresnet50 cspresnet50d cspresnext50 darknet17 darknet21
        eca_botnext26ts_256 eca_nfnet_l1 eca_resnet33ts eca_resnext26ts fastvit_mci0 fastvit_sa12
        gcresnext26ts gcresnext50ts hieradet_small lambda_resnet26rpt_256 lambda_resnet26t
        maxxvitv2_nano_rw_256 resnetrs270 sebotnet33ts_256
    """,
    299: """
        legacy_xception
    """,
    300: """
        tf_efficientnetv2_s
    """,
    320: """
        efficientnetv2_m
    """,
    384: """
        cait_xxs36_384 deit_base_distilled_patch16_384
    """,
    896: """
        sam2_hiera_small sam2_hiera_tiny
    """,
}

for size, names in MODELS.items():
    for name in names.split():
        add(name, timm(name), 'image', size=size)
