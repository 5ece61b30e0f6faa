module gpusharing.dev/allocator-oracle

go 1.26.0

// The least of the versions that the program is built with; ../v36 and ../v37 say which.
require (
	k8s.io/api v0.36.4
	k8s.io/apimachinery v0.36.4
	k8s.io/dynamic-resource-allocation v0.36.4
	k8s.io/utils v0.0.0-20260108192941-914a6e750570
)
