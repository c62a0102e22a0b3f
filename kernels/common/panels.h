// Where packed weights live: the maps from (n, k) to a byte offset, used by the packers in src/layout and
// by the kernels, so that there is one definition of each order.
//
// A packed B holds three sections, each starting at a multiple of 64 bytes:
//   codes   panels of kPanelColumns columns, described below
//   scales  [panel][k block][column in panel] in the scale's own type; present when B has scales
//   zeros   the same shape, one int8 an element (all integer zero-point types are widened to int8)
// Element (n, k block j) of scales and zeros is [(n / columns * blocks + j) * columns + n % columns] with
// blocks = ceil(K / block_k) and columns = sg_panel_columns(layout).
// Columns past N hold code 0, scale 1 (e8m0 127, e4m3 0x38, ...) and zero 0; k past K holds code 0: no result
// depends on them. Scales with block_r > 1 are repeated for every column, and "all along K" is one k block.
#ifndef SCALEGEMM_KERNELS_COMMON_PANELS_H_
#define SCALEGEMM_KERNELS_COMMON_PANELS_H_

#include <stdint.h>

enum SgPanelLayout {
  SG_RAW = 0,
  // [n/32][k][32 columns]; 4-bit codes: [n/32][k/2][32 bytes], low nibble k even, high nibble k odd.
  SG_PANEL_K1X32 = 1,
  // [n/16][k/4][16 columns][4 k] bytes; 4-bit codes: [n/16][k/8][16 columns][4 bytes], byte j of a column
  // holds k = 8i + j in the low nibble and k = 8i + 4 + j in the high nibble. K is padded to 4 (8-bit) or
  // 8 (4-bit).
  SG_PANEL_K4X16 = 2
};

static inline int64_t sg_panel_columns(int layout) {
  return layout == SG_PANEL_K1X32 ? 32 : 16;
}

static inline int64_t sg_round_up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

// K after padding to what one load of the layout covers.
static inline int64_t sg_panel_k(int layout, int bits, int64_t k) {
  if (layout == SG_PANEL_K1X32) {
    return bits == 4 ? sg_round_up(k, 2) : k;
  }
  return sg_round_up(k, bits == 4 ? 8 : 4);
}

// Bytes of one panel of codes.
static inline int64_t sg_panel_bytes(int layout, int bits, int64_t k) {
  return sg_panel_columns(layout) * sg_panel_k(layout, bits, k) * bits / 8;
}

// Byte offset of code (n, k) inside the codes section; for 4-bit codes *high is set when the code sits in
// the high nibble.
static inline int64_t sg_panel_offset(int layout, int bits, int64_t k_total, int64_t n, int64_t k,
                                      int* high) {
  const int64_t columns = sg_panel_columns(layout);
  const int64_t panel = n / columns * sg_panel_bytes(layout, bits, k_total);
  const int64_t c = n % columns;
  *high = 0;
  if (layout == SG_PANEL_K1X32) {
    if (bits == 4) {
      *high = k % 2 != 0;
      return panel + k / 2 * columns + c;
    }
    return panel + (k * columns + c) * bits / 8;
  }
  if (bits == 4) {
    *high = k % 8 >= 4;
    return panel + (k / 8 * columns + c) * 4 + k % 4;
  }
  return panel + (k / 4 * columns + c) * 4 + k % 4;
}

#endif  // SCALEGEMM_KERNELS_COMMON_PANELS_H_
