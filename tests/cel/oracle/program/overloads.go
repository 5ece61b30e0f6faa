package main

import (
	"maps"
	"slices"

	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// allOverloads are those of every function that selectors may call, as "function overload", and the macros by name.
func allOverloads() []string {
	environment := compiled("true", false).Environment
	var all []string
	for name, function := range environment.Functions() {
		for _, overload := range function.OverloadDecls() {
			all = append(all, name+" "+overload.ID())
		}
	}
	for _, macro := range environment.Macros() {
		all = append(all, macro.Function()+" "+macro.MacroKey())
	}
	slices.Sort(all)
	return all
}

// overloadsOf are those that the expression may call, once its types are known.
func overloadsOf(program dracel.CompilationResult) []string {
	ast, issues := program.Environment.Compile(program.Expression)
	if issues.Err() != nil {
		return nil
	}
	called := map[string]bool{}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		for _, overload := range reference.OverloadIDs {
			called[overload] = true
		}
	}
	return slices.Sorted(maps.Keys(called))
}
