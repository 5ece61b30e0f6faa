// Package nvfm stands in for NVIDIA's bindings of Fabric Manager, which are not available as a Go module everywhere.
// NVIDIA's driver calls them only with its feature gate FabricManagerPartitioning, which nobody turns on here: these
// functions let it be built, and fail.
package nvfm

type Return int

const (
	SUCCESS Return = 0

	unavailable Return = -1
)

func (Return) Error() string { return "built without Fabric Manager" }

type FabricPartitionId uint32

type FabricPartitionGpuInfo struct {
	PhysicalId          uint32
	Uuid                [80]int8
	PciBusId            [32]int8
	NumNvLinksAvailable uint32
	MaxNumNvLinks       uint32
	NvlinkLineRateMBps  uint32
}

type FabricPartitionInfo struct {
	PartitionId FabricPartitionId
	IsActive    uint32
	NumGpus     uint32
	GpuInfo     [16]FabricPartitionGpuInfo
}

type FabricPartitionList struct {
	NumPartitions uint32
	PartitionInfo [64]FabricPartitionInfo
}

type Handle interface {
	GetSupportedFabricPartitions() (FabricPartitionList, Return)
	ActivateFabricPartition(FabricPartitionId) Return
	DeactivateFabricPartition(FabricPartitionId) Return
	Disconnect() Return
}

type Interface interface {
	Init() Return
	Shutdown() Return
	Connect(...ConnectOption) (Handle, Return)
}

type (
	LibraryOption struct{}
	ConnectOption struct{}
)

func WithLibraryPath(string) LibraryOption { return LibraryOption{} }
func WithUnixSocket(string) ConnectOption  { return ConnectOption{} }
func WithAddress(string) ConnectOption     { return ConnectOption{} }
func WithTimeoutMs(uint32) ConnectOption   { return ConnectOption{} }

func New(...LibraryOption) Interface { return none{} }

type none struct{}

func (none) Init() Return                              { return unavailable }
func (none) Shutdown() Return                          { return unavailable }
func (none) Connect(...ConnectOption) (Handle, Return) { return nil, unavailable }
