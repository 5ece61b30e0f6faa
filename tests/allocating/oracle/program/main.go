// Answers what kube-scheduler allocates: one question per line of JSON, one answer per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// question sets the cluster, if it has one, and asks for claims, if it has any.
type question struct {
	Cluster *cluster `json:"cluster,omitempty"`
	// Claims of one pod.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	// Allocated are the devices of all other claims.
	Allocated []resourceapi.DeviceRequestAllocationResult `json:"allocated,omitempty"`
}

type cluster struct {
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Nodes   []*v1.Node                   `json:"nodes"`
}

type answer struct {
	// Nodes are in the order of the cluster.
	Nodes []onNode `json:"nodes"`
}

type onNode struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	// Error is what the scheduler stops the whole pod for.
	Error string `json:"error,omitempty"`
	// NodeError is what it reports of this node only.
	NodeError string `json:"nodeError,omitempty"`
	Timeout   bool   `json:"timeout,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return nil, errors.New("nobody lists classes")
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := c[name]; found {
		return class, nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

func main() {
	limit := flag.Duration("limit", 10*time.Second, "how long one node may take")
	next := flag.Bool("next", false, "with features that will be on by default in the next version")
	flag.Parse()
	debug.SetGCPercent(400)
	if err := serve(os.Stdin, os.Stdout, *limit, features(*next)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(input io.Reader, output io.Writer, limit time.Duration, on structured.Features) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	writer := bufio.NewWriter(output)
	encoder := json.NewEncoder(writer)
	// As the scheduler has it by default.
	cache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})
	var present cluster
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("not a question: %w", err)
		}
		if asked.Cluster != nil {
			present = *asked.Cluster
		}
		told, err := allocate(present, asked, cache, limit, on)
		if err != nil {
			return err
		}
		if err := encoder.Encode(told); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func allocate(present cluster, asked question, cache *cel.Cache, limit time.Duration, on structured.Features) (answer, error) {
	told := answer{Nodes: []onNode{}}
	if len(asked.Claims) == 0 {
		return told, nil
	}
	byName := make(classes, len(present.Classes))
	for _, class := range present.Classes {
		byName[class.Name] = class
	}
	// One allocator for all nodes, as in a scheduling attempt.
	allocator, err := structured.NewAllocator(
		context.Background(), on, stateOf(asked.Allocated), byName, present.Slices, cache)
	if err != nil {
		return told, err
	}
	for _, node := range present.Nodes {
		told.Nodes = append(told.Nodes, allocateOn(allocator, node, asked.Claims, limit))
	}
	return told, nil
}

func allocateOn(
	allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim, limit time.Duration,
) (told onNode) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	allocations, err := allocator.Allocate(ctx, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		told.Timeout = true
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		told.NodeError = err.Error()
	case err != nil:
		told.Error = err.Error()
	default:
		told.Allocations = allocations
	}
	return told
}

// features are those that are on by default in the version that the program is built with.
//
// FractionalCapacityRange is on as soon as it may not meet a component of the version before: by default a version later.
func features(next bool) structured.Features {
	names := []string{
		"AdminAccess", "ConsumableCapacity", "DeviceBindingAndStatus", "DeviceTaints", "PartitionableDevices",
		"PrioritizedList",
	}
	if next {
		names = append(names, "FractionalCapacityRange")
	}
	var on structured.Features
	for _, name := range names {
		if field := reflect.ValueOf(&on).Elem().FieldByName(name); field.IsValid() {
			field.SetBool(true)
		}
	}
	return on
}

// stateOf is how the scheduler's plugin counts what claims have.
func stateOf(results []resourceapi.DeviceRequestAllocationResult) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, result := range results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case ptr.Deref(result.AdminAccess, false):
		case result.ShareID == nil:
			state.AllocatedDevices.Insert(id)
		default:
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}
