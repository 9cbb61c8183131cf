# Sourced by the scripts in a bundle; $bundle is its folder. Sets the paths of its programs and libraries.

export OPAL_PREFIX=$bundle/openmpi OPAL_LIBDIR=$bundle/openmpi/lib OPAL_PKGLIBDIR=$bundle/openmpi/lib/openmpi
export OPAL_PKGDATADIR=$bundle/openmpi/share/openmpi
export PMIX_PREFIX=$bundle/openmpi PMIX_LIBDIR=$bundle/openmpi/lib PMIX_PKGLIBDIR=$bundle/openmpi/lib/pmix
export OMPI_MCA_mca_base_component_path=$bundle/openmpi/lib/openmpi
export PMIX_MCA_mca_base_component_path=$bundle/openmpi/lib/pmix
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
# All ranks are on one host, so mpirun needs no ssh.
export OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader,tcp
export TESSERA_SOURCE_DIR=$bundle
# Otherwise tessera would restart itself to set this.
[ -n "${OMP_WAIT_POLICY:-}${GOMP_SPINCOUNT:-}" ] || export GOMP_SPINCOUNT=1000

# CUDA's libraries, from the toolkit or from Python packages.
cuda_libraries() {
  local folder
  for folder in /usr/local/cuda*/lib64 /usr/lib/x86_64-linux-gnu \
    $("${PYTHON:-python3}" -c 'import sys; print(*filter(None, sys.path), sep="\n")' 2>/dev/null | sed 's|$|/nvidia|'); do
    case $folder in
      */nvidia) find "$folder" -maxdepth 3 -name lib -type d 2>/dev/null ;;
      *) [ -e "$folder/libcudart.so.13" ] && echo "$folder" ;;
    esac
  done | paste -sd: -
}
