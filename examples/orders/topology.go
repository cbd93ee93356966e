package main

import (
	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Order is a row of topic "orders", keyed by the order's number.
type Order struct {
	Customer string `json:"customer"` // key of a row of "customers"
	Item     string `json:"item"`
}

// Customer is a row of topic "customers".
type Customer struct {
	Name string `json:"name"`
	City string `json:"city"`
}

// Shipment is a row of topic "shipments", keyed by the order's number.
type Shipment struct {
	Item string `json:"item"`
	Name string `json:"name"`
	City string `json:"city"`
}

// Topology describes the service: topic "shipments" has a row for every order
// whose customer is known, and follows the changes of both.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	// A table is the last value per key. Its topic should be compacted.
	orders := b.Table("orders", "orders", serde.String(), serde.JSON[Order]())
	customers := b.Table("customers", "customers", serde.String(), serde.JSON[Customer]())

	// Join would join rows with the same key. An order names its customer in
	// the value instead: JoinForeignKey asks for that key. The two topics need
	// not have the same number of partitions.
	orders.JoinForeignKey("shipments", customers, customerOf, newShipment, serde.JSON[Shipment]()).
		ToStream().
		To("shipments")

	return b.Build()
}

// customerOf returns the customer's key; false means that the order names none.
func customerOf(_ string, o Order) (string, bool) { return o.Customer, o.Customer != "" }

func newShipment(o Order, c Customer) Shipment {
	return Shipment{Item: o.Item, Name: c.Name, City: c.City}
}
