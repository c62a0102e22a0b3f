/* The ordinary library, as installed. */
#include <scalegemm/scalegemm.h>
#include <string.h>

int main(void) {
  return strcmp(scalegemm_version(), "") == 0;
}
